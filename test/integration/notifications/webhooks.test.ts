import { Webhook } from 'standardwebhooks';
import t from 'tap';
import { DELIVERIES_WAITING_MAX } from '../../../core/limits.ts';
import { at, textAt } from '../control-plane/admin-fixture.ts';
import { fieldsOf, MANDATE, problemOf } from '../control-plane/noun-fixture.ts';
import { notifyFixture, runAll } from './notify-fixture.ts';
import { type Received, startReceiver } from './receiver.ts';

/** What a receiver makes of a message by the standardwebhooks package; throws where it is not genuine. */
function verified(secret: string, { body, headers }: Received) {
  return new Webhook(secret).verify(body, headers) as {
    readonly type: string;
    readonly timestamp: string;
    readonly data: Record<string, unknown>;
  };
}

t.test(
  'an escalation is told once, signed so that the standard library verifies it, with what a human needs',
  async (t) => {
    const fixture = await notifyFixture(t);
    const receiver = await startReceiver(t);
    const { id, secret } = await fixture.webhook(receiver.url, ['escalation.created', 'escalation.approved']);
    t.match(secret, /^whsec_[A-Za-z0-9+/]{43}=$/);
    const agent = await fixture.payer();
    const escalation = await fixture.escalate(agent);
    const planes = [fixture.dispatcher(), fixture.dispatcher()];
    await runAll(...planes);
    t.equal(receiver.seen.length, 1, 'two control planes, one message');
    const message = receiver.seen[0]!;
    const payload = verified(secret, message);
    t.match(message.headers, { 'content-type': 'application/json', 'webhook-id': /^evt_[0-9a-z]{26}$/ });
    t.match(payload, {
      type: 'escalation.created',
      data: {
        version: 1,
        account_id: fixture.person.accountId,
        escalation_id: escalation,
        mandate_id: agent.mandateId,
        instance_id: agent.instanceId,
        action: { type: 'payments.create', amount: { value: 5.01, currency: 'EUR' }, counterparty: 'acme' },
        request: { method: 'POST', path: '/payments', tool: 'http.post:/payments' },
      },
    });
    t.throws(() => verified(secret, { ...message, body: `${message.body} ` }), 'nothing else has this signature');
    await fixture.as('POST', `/admin/escalations/${escalation}/approve`, { reason: 'agreed' });
    await runAll(...planes);
    t.match(verified(secret, receiver.seen[1]!), {
      type: 'escalation.approved',
      data: { escalation_id: escalation, reason: 'agreed' },
    });
    t.notMatch(receiver.seen.map(({ body }) => body).join(), /etk_|gwt_|mak_|whsec_/, 'no secret is told');
    const log = await fixture.deliveries(id);
    t.match(log, [
      { type: 'escalation.approved', state: 'delivered', attempts: 1, last_status: 204, next_attempt_at: null },
      { type: 'escalation.created', state: 'delivered', log: [{ status: 204, error: null, latency_ms: Number }] },
    ]);
    t.same(fixture.counted, ['webhook delivered', 'webhook delivered']);
    t.same(fixture.errors, []);
  },
);

t.test(
  'a receiver that is down for a while gets everything when it is up again, once, under the same id',
  async (t) => {
    const fixture = await notifyFixture(t);
    const down = await startReceiver(t);
    const { id, secret } = await fixture.webhook(down.url, ['escalation.created']);
    await down.close();
    const agent = await fixture.payer();
    await fixture.escalate(agent, 'one');
    await fixture.escalate(agent, 'two');
    const dispatcher = fixture.dispatcher();
    await runAll(dispatcher);
    const ids = (await fixture.deliveries(id)).map((one) => one.event_id).sort();
    t.match(await fixture.deliveries(id), [
      { state: 'pending', attempts: 1, last_error: 'unreachable', last_status: null },
      { state: 'pending', attempts: 1 },
    ]);
    t.match((await fixture.as('GET', `/admin/webhooks/${id}`)).body, { failing_since: String });
    await runAll(dispatcher);
    t.equal((await fixture.deliveries(id))[0]?.attempts, 1, 'not before its pause is over');
    await fixture.advance(7);
    await runAll(dispatcher);
    t.equal((await fixture.deliveries(id))[0]?.attempts, 2);
    const up = await startReceiver(t, down.port);
    await fixture.advance(19);
    await runAll(dispatcher, fixture.dispatcher());
    t.same(up.seen.map(({ headers }) => headers['webhook-id']).sort(), ids);
    for (const message of up.seen) verified(secret, message);
    t.match(await fixture.deliveries(id), [
      { state: 'delivered', attempts: 3 },
      { state: 'delivered', attempts: 3 },
    ]);
    t.match((await fixture.as('GET', `/admin/webhooks/${id}`)).body, { failing_since: null });
  },
);

t.test(
  'a receiver that never answers is tried for three days, then disabled with a notice to the others',
  async (t) => {
    const fixture = await notifyFixture(t);
    const [broken, other] = [await startReceiver(t), await startReceiver(t)];
    broken.answer = (response) => void response.writeHead(500).end('a secret of the receiver');
    const { id } = await fixture.webhook(broken.url, ['escalation.created']);
    const notice = await fixture.webhook(other.url, ['webhook.disabled']);
    await fixture.escalate(await fixture.payer());
    const dispatcher = fixture.dispatcher();
    await runAll(dispatcher);
    let hours = 0;
    for (; hours < 100 && (await fixture.deliveries(id))[0]?.state === 'pending'; hours += 1) {
      await fixture.advance(3600);
      await runAll(dispatcher);
    }
    await runAll(dispatcher);
    t.ok(hours > 48 && hours < 100, `given up after ${hours} hours`);
    t.match(await fixture.deliveries(id), [{ state: 'dead', attempts: 13, last_status: 500, last_error: 'refused' }]);
    t.match((await fixture.as('GET', `/admin/webhooks/${id}`)).body, { status: 'disabled', disabled_cause: 'failing' });
    t.match(verified(notice.secret, other.seen[0]!), { type: 'webhook.disabled', data: { endpoint_id: id } });
    t.match((await fixture.chain()).at(-1), { kind: 'webhook.disabled', body: { cause: 'failing', endpoint_id: id } });
    const rows = await fixture.sql<{ row: string }[]>`select d::text as row from notification_deliveries d`;
    t.notMatch(rows.map(({ row }) => row).join(), /a secret of the receiver/, 'what it answered is not kept');
  },
);

t.test('a receiver that says it is gone is disabled at once', async (t) => {
  const fixture = await notifyFixture(t);
  const receiver = await startReceiver(t);
  receiver.answer = (response) => void response.writeHead(410).end();
  const { id } = await fixture.webhook(receiver.url, ['escalation.created']);
  const agent = await fixture.payer();
  await fixture.escalate(agent);
  const dispatcher = fixture.dispatcher();
  await runAll(dispatcher);
  t.match((await fixture.as('GET', `/admin/webhooks/${id}`)).body, { status: 'disabled', disabled_cause: 'gone' });
  await fixture.escalate(agent, 'another');
  await runAll(dispatcher);
  t.equal(receiver.seen.length, 1, 'and hears of nothing more');
});

t.test('redirections are not followed, slow receivers are left, and huge answers are not read', async (t) => {
  const fixture = await notifyFixture(t);
  const [from, to, slow, huge] = await Promise.all([1, 2, 3, 4].map(() => startReceiver(t)));
  from!.answer = (response) => void response.writeHead(307, { location: to!.url }).end();
  slow!.answer = () => {};
  let written = 0;
  huge!.answer = (response) => {
    response.writeHead(200);
    const chunk = Buffer.alloc(64 * 1024);
    const more = (): void => {
      while (!response.destroyed && response.write(chunk)) written += chunk.length;
    };
    response.on('drain', more);
    response.on('error', () => {});
    more();
  };
  const hooks = [];
  for (const one of [from, slow, huge]) hooks.push(await fixture.webhook(one!.url, ['escalation.created']));
  await fixture.escalate(await fixture.payer());
  const dispatcher = fixture.dispatcher({ sending: { timeoutMs: 500 } });
  await runAll(dispatcher);
  const [redirected, left, answered] = await Promise.all(hooks.map(({ id }) => fixture.deliveries(id)));
  t.match(redirected, [{ state: 'pending', last_status: 307, last_error: 'redirect' }]);
  t.same(to!.seen, []);
  t.match(left, [{ state: 'pending', last_status: null, last_error: 'timeout' }]);
  t.match(answered, [{ state: 'delivered', last_status: 200 }]);
  t.ok(written < 16 * 1024 * 1024, `${written} bytes were taken by the sockets`);
});

t.test('no connection is made to a private address, not even where a name leads there only later', async (t) => {
  const fixture = await notifyFixture(t);
  const receiver = await startReceiver(t);
  const { id } = await fixture.webhook(receiver.url, ['escalation.created']);
  const resolve = async () => [{ address: '127.0.0.1', family: 4 }];
  const named = await fixture.webhook(receiver.url.replace('127.0.0.1', 'localhost'), ['escalation.created']);
  await fixture.sql`update webhook_endpoints set url = ${`http://rebound.example:${receiver.port}/`}
    where endpoint_id = ${named.id}`;
  await fixture.escalate(await fixture.payer());
  await runAll(fixture.dispatcher({ sending: { allowPrivate: false, resolve } }));
  for (const one of [id, named.id]) {
    t.match(await fixture.deliveries(one), [{ state: 'pending', last_error: 'unreachable', last_status: null }]);
  }
  t.same(receiver.seen, []);
});

t.test('an address that is private, in plain text or not plain is refused when it is given', async (t) => {
  const fixture = await notifyFixture(t);
  const given = async (url: string) => await fixture.as('POST', '/admin/webhooks', { url });
  for (const url of ['ftp://example.com/', 'https://user:pass@127.0.0.1/', 'https://127.0.0.1/#part', 'nothing']) {
    t.same(fieldsOf(await given(url)), ['url'], url);
  }
  t.same(fieldsOf(await given('http://169.254.169.254/latest')), ['url'], 'the metadata address, whatever is allowed');
  t.same(fieldsOf(await fixture.as('POST', '/admin/webhooks', { url: 'https://127.0.0.1/', events: [] })), ['events']);
  (fixture.deps as { allowPrivateTargets: boolean }).allowPrivateTargets = false;
  for (const url of ['https://127.0.0.1/', 'https://[::1]/', 'https://10.0.0.7/', 'http://192.0.2.1/']) {
    t.same(fieldsOf(await given(url)), ['url'], url);
  }
});

t.test('during a rotation both secrets verify, and afterwards only the new one', async (t) => {
  const fixture = await notifyFixture(t);
  const receiver = await startReceiver(t);
  const { id, secret } = await fixture.webhook(receiver.url);
  const rotated = await fixture.as('POST', `/admin/webhooks/${id}/rotate-secret`);
  const fresh = textAt(rotated, 'secret');
  t.match(rotated.body, { previous_secret_until: String });
  const dispatcher = fixture.dispatcher();
  t.equal((await fixture.as('POST', `/admin/webhooks/${id}/test`)).status, 202);
  await runAll(dispatcher);
  for (const one of [secret, fresh]) t.match(verified(one, receiver.seen[0]!), { type: 'webhook.test' });
  await fixture.advance(24 * 3600 + 1);
  await fixture.as('POST', `/admin/webhooks/${id}/test`);
  await runAll(dispatcher);
  t.match(verified(fresh, receiver.seen[1]!), { type: 'webhook.test' });
  t.throws(() => verified(secret, receiver.seen[1]!));
  const rows = await fixture.sql<{ row: string }[]>`select w::text as row from webhook_endpoints w`;
  for (const one of [secret, fresh]) {
    const key = Buffer.from(one.slice('whsec_'.length), 'base64');
    t.notMatch(rows[0]?.row, key.toString('hex'), 'the database has no secret');
    t.notOk((await fixture.as('GET', `/admin/webhooks/${id}`)).text.includes(one), 'and it is shown once');
  }
  t.notMatch(JSON.stringify(await fixture.chain()), /whsec_/);
});

t.test('a delivery is replayed under its id, and nothing goes to what is disabled or deleted', async (t) => {
  const fixture = await notifyFixture(t);
  const receiver = await startReceiver(t);
  const { id } = await fixture.webhook(receiver.url, ['escalation.created']);
  const agent = await fixture.payer();
  await fixture.escalate(agent);
  const dispatcher = fixture.dispatcher();
  await runAll(dispatcher);
  const [first] = await fixture.deliveries(id);
  const again = `/admin/webhooks/${id}/deliveries/${first?.delivery_id}/replay`;
  t.equal((await fixture.as('POST', again)).status, 202);
  t.same(problemOf(await fixture.as('POST', again)), [409, 'conflict'], 'it waits already');
  await runAll(dispatcher);
  t.equal(receiver.seen.length, 2);
  t.equal(receiver.seen[0]?.headers['webhook-id'], receiver.seen[1]?.headers['webhook-id']);
  t.equal(receiver.seen[0]?.body, receiver.seen[1]?.body);
  t.match(await fixture.deliveries(id), [{ state: 'delivered', log: [{ status: 204 }, { status: 204 }] }]);
  await fixture.as('POST', again);
  await fixture.as('POST', `/admin/webhooks/${id}/disable`);
  t.same(problemOf(await fixture.as('POST', again)), [409, 'conflict']);
  await runAll(dispatcher);
  t.match(await fixture.deliveries(id), [{ state: 'dead', last_error: 'endpoint_disabled' }]);
  await fixture.as('POST', `/admin/webhooks/${id}/enable`);
  await fixture.as('POST', again);
  t.same((await fixture.as('DELETE', `/admin/webhooks/${id}`)).body, { endpoint_id: id, deleted: true });
  await runAll(dispatcher);
  t.equal(receiver.seen.length, 2);
  t.same(problemOf(await fixture.as('GET', `/admin/webhooks/${id}/deliveries`)), [404, 'not_found']);
  const kinds = (await fixture.chain()).map(({ kind }) => kind).filter((kind) => kind.startsWith('webhook.'));
  const steps = ['created', 'replayed', 'replayed', 'disabled', 'enabled', 'replayed', 'deleted'];
  t.same(
    kinds,
    steps.map((step) => `webhook.${step}`),
  );
});

t.test('a delivery whose secret cannot be opened fails like any other: tried again more and more rarely', async (t) => {
  const fixture = await notifyFixture(t);
  const receiver = await startReceiver(t);
  const { id } = await fixture.webhook(receiver.url, ['escalation.created']);
  const [sealed] = await fixture.sql<{ secret: Buffer }[]>`select secret_sealed as secret from webhook_endpoints`;
  await fixture.sql`update webhook_endpoints set secret_sealed = '\\x0102'`;
  await fixture.escalate(await fixture.payer());
  const dispatcher = fixture.dispatcher();
  await runAll(dispatcher);
  t.match(await fixture.deliveries(id), [{ state: 'pending', attempts: 1, last_error: 'secret_unreadable' }]);
  t.equal(fixture.errors.length, 1);
  await fixture.advance(10);
  await runAll(dispatcher);
  t.match(await fixture.deliveries(id), [{ state: 'pending', attempts: 2 }]);
  await fixture.sql`update webhook_endpoints set secret_sealed = ${sealed?.secret ?? null}`;
  await fixture.advance(30);
  await runAll(dispatcher);
  t.match(await fixture.deliveries(id), [{ state: 'delivered', attempts: 3 }]);
  t.equal(receiver.seen.length, 1);
});

t.test('a message that was in flight when its control plane stopped is sent by another, without a wait', async (t) => {
  const fixture = await notifyFixture(t);
  const receiver = await startReceiver(t);
  const { id } = await fixture.webhook(receiver.url, ['escalation.created']);
  await fixture.escalate(await fixture.payer());
  receiver.answer = () => {};
  const stopping = fixture.dispatcher();
  await stopping.round();
  await receiver.until(1);
  await stopping.close(0);
  receiver.answer = (response) => void response.writeHead(200).end();
  await runAll(fixture.dispatcher());
  t.equal(receiver.seen.length, 2);
  t.equal(receiver.seen[0]?.headers['webhook-id'], receiver.seen[1]?.headers['webhook-id']);
  t.match(await fixture.deliveries(id), [{ state: 'delivered', attempts: 1 }]);
});

t.test('a slow receiver does not keep the others waiting, and has few messages at a time', async (t) => {
  const fixture = await notifyFixture(t);
  const [slow, quick] = [await startReceiver(t), await startReceiver(t)];
  slow.answer = () => {};
  await fixture.webhook(slow.url, ['escalation.created']);
  await fixture.webhook(quick.url, ['escalation.created']);
  const agent = await fixture.payer();
  for (const name of ['a', 'b', 'c', 'd', 'e', 'f']) await fixture.escalate(agent, name);
  const dispatcher = fixture.dispatcher();
  while (quick.seen.length < 6) await dispatcher.round();
  t.ok(slow.seen.length <= 2, `${slow.seen.length} at a time`);
});

t.test('where too many deliveries wait for a webhook, no test and no replay is added', async (t) => {
  const fixture = await notifyFixture(t);
  const { id } = await fixture.webhook('http://127.0.0.1:9/');
  const { accountId } = fixture.person;
  const tested = await fixture.as('POST', `/admin/webhooks/${id}/test`);
  const delivery = textAt(tested, 'delivery_id');
  await fixture.sql`
    update notification_deliveries set state = 'delivered', settled_at = db_clock() where delivery_id = ${delivery}`;
  const fill = (from: number, to: number) => fixture.sql`
    with made as (
      insert into notification_events (account_id, event_id, type, at, facts, payload, spread_at)
      select ${accountId}, 'evt_' || lpad(n::text, 26, '0'), 'webhook.test', db_clock(), '{}', '{}', db_clock()
      from generate_series(${from}::integer, ${to}::integer) n returning event_id)
    insert into notification_deliveries (account_id, delivery_id, event_id, channel, target, state, next_at, created_at)
    select ${accountId}, 'dlv_' || substr(event_id, 5), event_id, 'webhook', ${id}, 'pending', db_clock(), db_clock()
    from made`;
  await fill(1, DELIVERIES_WAITING_MAX - 1);
  t.equal((await fixture.as('POST', `/admin/webhooks/${id}/test`)).status, 202, 'the last one that may wait');
  const entries = (await fixture.chain()).length;
  for (const path of ['test', `deliveries/${delivery}/replay`]) {
    const refused = await fixture.as('POST', `/admin/webhooks/${id}/${path}`);
    t.same(problemOf(refused), [409, 'conflict'], path);
    t.match(textAt(refused, 'detail'), /10000 deliveries wait/);
  }
  t.equal((await fixture.chain()).length, entries, 'and no evidence says otherwise');
});

t.test('an account has a bounded number of webhooks', async (t) => {
  const fixture = await notifyFixture(t);
  const made = [];
  for (let i = 0; i < 11; i += 1)
    made.push(await fixture.as('POST', '/admin/webhooks', { url: 'http://127.0.0.1:9/' }));
  t.same(
    made.map(({ status }) => status),
    [...Array.from({ length: 10 }, () => 201), 409],
  );
  t.equal(at(made[0]!, 'name'), 'Unnamed webhook');
});

t.test('an account whose receivers are all slow has few messages in flight, and room is left for others', async (t) => {
  const fixture = await notifyFixture(t);
  const [slow, quick] = [await startReceiver(t), await startReceiver(t)];
  slow.answer = () => {};
  for (let i = 0; i < 10; i += 1) await fixture.webhook(slow.url, ['escalation.created']);
  await fixture.escalate(await fixture.payer());
  const other = await fixture.signUp();
  const made = { url: quick.url, events: ['mandate.activated'] };
  t.equal((await fixture.send('POST', '/admin/webhooks', other.token, made)).status, 201);
  const dispatcher = fixture.dispatcher();
  await dispatcher.round();
  await slow.until(8);
  await fixture.send('POST', '/admin/mandates', other.token, MANDATE);
  while (quick.seen.length === 0) await dispatcher.round();
  t.equal(slow.seen.length, 8);
});
