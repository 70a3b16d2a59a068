import { hash } from 'node:crypto';
import t from 'tap';
import { newSecretToken } from '../../../core/secret-token.ts';
import { ask, chainOf } from '../decisions/lane-client.ts';
import { escalationFixture, send } from './escalation-fixture.ts';

const FOREVER = new AbortController().signal;
const LONG_MS = 60_000;

t.test('the card shows everything that an approval binds, and what the month would hold', async (t) => {
  const { plane, session, escalate, account } = await escalationFixture(t);
  await ask(plane.lanes, account, { amount: 100 });
  const body = '{"amount":501,"note":"für alle"}';
  const id = await escalate({ body });
  t.equal(await plane.waits.storeBody(account.accountId, id, Buffer.from(body)), true);
  const card = await send(plane, 'GET', `/admin/escalations/${id}`, session);
  t.match(card, {
    status: 200,
    body: {
      id,
      status: 'pending',
      action: { type: 'payments.create', amount: { value: 5.01, currency: 'EUR' }, counterparty: 'acme' },
      request: { method: 'POST', path: '/payments', query: '', body_sha256: /^[0-9a-f]{64}$/ },
      request_body: body,
      request_body_encoding: 'utf-8',
      mandate_id: account.mandateId,
      mandate_name: 'bench',
      instance_id: account.instanceId,
      tool: 'http.post:/payments',
      receipt_id: /^rcp_/,
      month: { booked: 0, reserved: 1, after: 6.01 },
    },
  });
  t.notOk('escalation_token' in card.body);
  const list = await send(plane, 'GET', '/admin/escalations?status=pending&limit=5', session);
  t.same(list.body, { escalations: [card.body] });
  t.same((await send(plane, 'GET', '/admin/escalations?status=approved', session)).body, { escalations: [] });
  for (const query of ['limit=0', 'limit=201', 'limit=1e1', 'status=open', 'state=pending', 'limit=1&limit=2']) {
    t.match(await send(plane, 'GET', `/admin/escalations?${query}`, session), { status: 422 }, query);
  }
});

t.test('of two approvals at once, at two control planes, exactly one is taken and recorded', async (t) => {
  const fixture = await escalationFixture(t);
  const { plane, session, escalate, account, custody, sql } = fixture;
  const planes = [plane, await fixture.morePlanes()];
  const id = await escalate();
  const url = `/admin/escalations/${id}/approve`;
  const answers = await Promise.all(planes.map((one) => send(one, 'POST', url, session, { reason: 'fine' })));
  t.same(answers.map(({ status }) => status).sort(), [200, 409]);
  const yes = answers.find(({ status }) => status === 200)?.body;
  t.match(yes, { id, status: 'approved', reason: 'fine', decided_by: account.accountId });
  t.equal(yes?.['escalation_token'], custody.escalationToken(id));
  const no = answers.find(({ status }) => status === 409)?.body;
  t.match(no, { error: 'conflict', detail: /approved/ });
  const kinds = (await chainOf(sql, account)).map((entry) => entry.kind);
  t.same(kinds, ['decision', 'escalation.approved']);
  const token = custody.escalationToken(id);
  t.match(await ask(plane.lanes, account, { amount: 501, escalationToken: token }), { answer: 'allow' });
  t.match(await send(plane, 'POST', url, session), { status: 409, body: { detail: /used/ } });
});

t.test('approve, reject and expiry exclude each other, whichever comes first', async (t) => {
  const fixture = await escalationFixture(t);
  const { plane, session, escalate, account, sql, moveTime } = fixture;
  const other = await fixture.morePlanes();
  const id = await escalate();
  const [approved, rejected] = await Promise.all([
    send(plane, 'POST', `/admin/escalations/${id}/approve`, session, {}),
    send(other, 'POST', `/admin/escalations/${id}/reject`, session, {}),
  ]);
  t.same([approved.status, rejected.status].sort(), [200, 409]);
  await moveTime(601);
  const answered = await plane.waits.wait(account.accountId, id, 0, FOREVER);
  t.equal(answered?.status, approved.status === 200 ? 'approved' : 'rejected');
  t.equal((await chainOf(sql, account)).length, 2);
});

t.test('an approval after the time is refused, and the escalation is recorded as expired', async (t) => {
  const { plane, session, escalate, account, sql, moveTime } = await escalationFixture(t);
  const id = await escalate();
  await moveTime(601);
  const late = await send(plane, 'POST', `/admin/escalations/${id}/approve`, session, {});
  t.match(late, { status: 409, body: { error: 'conflict', detail: /expired/ } });
  t.same(
    (await chainOf(sql, account)).map((entry) => entry.kind),
    ['decision', 'escalation.expired'],
  );
  const [row] = await sql`select status, token_hash from escalations`;
  t.same(row, { status: 'expired', token_hash: null });
  t.match(await ask(plane.lanes, account, { amount: 501 }), { answer: 'deny', code: 'MD-401' });
});

t.test('a rejection denies the identical action, forgets the body, and yields no token', async (t) => {
  const { plane, session, escalate, account, sql } = await escalationFixture(t);
  const body = '{"amount":501}';
  const id = await escalate({ body });
  await plane.waits.storeBody(account.accountId, id, Buffer.from(body));
  const answer = await send(plane, 'POST', `/admin/escalations/${id}/reject`, session, { reason: 'no' });
  t.match(answer, { status: 200, body: { status: 'rejected', request_body: null, reason: 'no' } });
  t.match(await ask(plane.lanes, account, { amount: 501, body }), { answer: 'deny', code: 'MD-401' });
  t.match(await send(plane, 'GET', `/api/v1/escalations/${id}`, account.token), {
    status: 200,
    body: { id, status: 'rejected' },
  });
  const [entry] = (await chainOf(sql, account)).filter(({ kind }) => kind === 'escalation.rejected');
  t.match(JSON.parse(entry!.body), { escalation_id: id, mandate_id: account.mandateId, decided_by: account.accountId });
});

t.test('an agent sees its own escalation, and the token only once it is approved and while it is good', async (t) => {
  const fixture = await escalationFixture(t);
  const { plane, session, escalate, account, custody, moveTime, sql } = fixture;
  const id = await escalate();
  const url = `/api/v1/escalations/${id}`;
  const stranger = await fixture.stranger();
  const pending = await send(plane, 'GET', url, account.token);
  t.match(pending, { status: 200, body: { id, status: 'pending', expires_at: String } });
  t.notOk('escalation_token' in pending.body);
  await send(plane, 'POST', `/admin/escalations/${id}/approve`, session, {});
  t.match((await send(plane, 'GET', url, account.token)).body, { escalation_token: custody.escalationToken(id) });
  t.equal((await send(plane, 'GET', url, stranger.account.token)).status, 404, "another account's agent");
  t.equal((await send(plane, 'GET', `/admin/escalations/${id}`, stranger.session)).status, 404);
  t.equal((await send(plane, 'POST', `/admin/escalations/${id}/approve`, stranger.session, {})).status, 404);
  for (const token of [newSecretToken('gwt'), session, newSecretToken('etk')]) {
    t.equal((await send(plane, 'GET', url, token)).status, 401);
  }
  t.equal((await send(plane, 'GET', `/admin/escalations/${id}`, account.token)).status, 401);
  await moveTime(601);
  t.notOk('escalation_token' in (await send(plane, 'GET', url, account.token)).body);
  await sql`update gateway_instances set status = 'disabled' where instance_id = ${account.instanceId}`;
  t.equal((await send(plane, 'GET', url, account.token)).status, 401, 'a disabled instance');
});

t.test('who waits wakes on an answer given here or at another control plane', async (t) => {
  const fixture = await escalationFixture(t);
  const { plane, session, escalate, account, custody } = fixture;
  const other = await fixture.morePlanes();
  const id = await escalate();
  const waiting = [plane, plane, other].map(({ waits }) => waits.wait(account.accountId, id, LONG_MS, FOREVER));
  await send(plane, 'POST', `/admin/escalations/${id}/approve`, session, {});
  for (const answer of await Promise.all(waiting)) {
    t.same(answer, { status: 'approved', escalation_token: custody.escalationToken(id) });
  }
  t.same(fixture.errors, []);
});

t.test('who waits past the time is told that it expired, and that is recorded once', async (t) => {
  const fixture = await escalationFixture(t);
  const { plane, escalate, account, sql, moveTime } = fixture;
  const other = await fixture.morePlanes();
  const id = await escalate();
  const waiting = [plane, other].map(({ waits }) => waits.wait(account.accountId, id, LONG_MS, FOREVER));
  await moveTime(601);
  for (const answer of await Promise.all(waiting)) t.same(answer, { status: 'expired', escalation_token: null });
  t.equal((await chainOf(sql, account)).filter(({ kind }) => kind === 'escalation.expired').length, 1);
});

t.test('a wait ends at its own time, when the proxy goes away, and for what does not exist', async (t) => {
  const { plane, escalate, account } = await escalationFixture(t);
  const id = await escalate();
  const pending = { status: 'pending', escalation_token: null };
  t.same(await plane.waits.wait(account.accountId, id, 1, FOREVER), pending);
  t.same(await plane.waits.wait(account.accountId, id, LONG_MS, AbortSignal.abort()), pending);
  const gone = new AbortController();
  const held = plane.waits.wait(account.accountId, id, LONG_MS, gone.signal);
  gone.abort();
  t.same(await held, pending);
  t.equal(await plane.waits.wait('acc_00000000000000000000000000', id, LONG_MS, FOREVER), null);
  t.equal(await plane.waits.countPending(), 1);
});

t.test('a body is kept once, only the bytes that were bound, only while it is pending', async (t) => {
  const { plane, session, escalate, account, sql } = await escalationFixture(t);
  const body = Buffer.from([0xff, 0x00, 0x7b]);
  const digest = hash('sha256', body, 'hex');
  const id = await escalate();
  await sql`update escalations set request = jsonb_set(request, '{body_sha256}', to_jsonb(${digest}::text))`;
  const keep = (bytes: Buffer): Promise<boolean> => plane.waits.storeBody(account.accountId, id, bytes);
  t.equal(await keep(Buffer.from('another')), false, 'other bytes');
  t.equal(await keep(Buffer.alloc(65_537)), false, 'too large');
  t.same((await Promise.all([keep(body), keep(body)])).sort(), [false, true]);
  t.match((await send(plane, 'GET', `/admin/escalations/${id}`, session)).body, {
    request_body: body.toString('base64'),
    request_body_encoding: 'base64',
  });
  const second = await escalate({ amount: 502, body: 'x' });
  await send(plane, 'POST', `/admin/escalations/${second}/approve`, session, {});
  t.equal(await plane.waits.storeBody(account.accountId, second, Buffer.from('x')), false, 'after the answer');
});
