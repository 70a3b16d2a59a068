import t from 'tap';
import { canonicalize, type JsonValue } from '../../../core/jcs.ts';
import { newSecretToken, secretHash } from '../../../core/secret-token.ts';
import { allowed, ask, chainOf, laneFixture, monthOf, tell } from './lane-client.ts';

t.test('an allow reserves the amount and its evidence is committed before the answer', async (t) => {
  const { lanes, account, sql } = await laneFixture(t);
  const receipt = allowed(await ask(lanes, account, { amount: 1234 }));
  t.same(await monthOf(sql, account), { reserved: 1234, booked: 0 });
  const [entry] = await chainOf(sql, account);
  t.equal(entry?.id, receipt);
  t.equal(canonicalize(JSON.parse(entry!.body) as JsonValue), entry!.body, 'the body is canonical');
  const [open] = await sql`select amount, state from reservations where receipt_id = ${receipt}`;
  t.match(open, { amount: 1234, state: 'reserved' });
});

t.test('the month limit holds to the last cent and a denial says by how much', async (t) => {
  const { lanes, account, sql } = await laneFixture(t, { per_action: 600, per_month: 1000 });
  t.match(await ask(lanes, account, { amount: 601 }), { answer: 'deny', code: 'MD-302' });
  allowed(await ask(lanes, account, { amount: 600 }));
  const denied = await ask(lanes, account, { amount: 401 });
  t.match(denied, { answer: 'deny', code: 'MD-303', reason_text: /0\.01 more than the 4\.00 left/ });
  allowed(await ask(lanes, account, { amount: 400 }));
  t.match(await ask(lanes, account, { amount: 1 }), { answer: 'deny', code: 'MD-303' });
  t.same(await monthOf(sql, account), { reserved: 1000, booked: 0 });
});

t.test('64 asks at once over two control planes never pass a limit together', async (t) => {
  const fixture = await laneFixture(t, { per_month: 1000 });
  const { account, sql } = fixture;
  const planes = [fixture.lanes, fixture.moreLanes()];
  const answers = await Promise.all(
    Array.from({ length: 64 }, (_, i) => ask(planes[i % 2]!, account, { amount: 100 })),
  );
  t.equal(answers.filter((answer) => answer.answer === 'allow').length, 10);
  t.equal(answers.filter((answer) => answer.answer === 'deny').length, 54);
  t.same(await monthOf(sql, account), { reserved: 1000, booked: 0 });
  t.equal((await chainOf(sql, account)).length, 64, 'every decision is in the chain');
});

t.test('booked moves, released gives back, unknown stays counted, and told twice changes nothing', async (t) => {
  const { lanes, account, sql } = await laneFixture(t, { per_month: 1000 });
  const [a, b, c] = [
    allowed(await ask(lanes, account, { amount: 100 })),
    allowed(await ask(lanes, account, { amount: 200 })),
    allowed(await ask(lanes, account, { amount: 400 })),
  ];
  for (let i = 0; i < 2; i++) {
    t.equal(await tell(lanes, account, a, { outcome: 'booked' }), true);
    t.equal(await tell(lanes, account, b, { outcome: 'released', target_status: 422 }), true);
    t.equal(await tell(lanes, account, c, { outcome: 'unknown', cause: 'target_timeout', target_status: null }), true);
  }
  t.same(await monthOf(sql, account), { reserved: 400, booked: 100 });
  const outcomes = (await chainOf(sql, account)).filter((entry) => entry.kind === 'outcome');
  t.equal(outcomes.flatMap(({ body }) => JSON.parse(body).outcomes).length, 3);
  for (const entry of outcomes) t.equal(canonicalize(JSON.parse(entry.body) as JsonValue), entry.body);
  t.equal(await tell(lanes, account, c, { outcome: 'booked' }), true, 'a late truth still counts');
  t.same(await monthOf(sql, account), { reserved: 0, booked: 500 });
});

t.test('an unknown path becomes a tool once, is denied MD-501, and at most 500 are kept', async (t) => {
  const { lanes, account, sql } = await laneFixture(t);
  const unread = { toolVersion: null };
  t.match(await ask(lanes, account, { name: 'http.get:/a', ...unread }), { answer: 'deny', code: 'MD-501' });
  t.match(await ask(lanes, account, { name: 'http.get:/a', ...unread }), { answer: 'deny', code: 'MD-501' });
  const names = Array.from({ length: 520 }, (_, i) => `http.get:/flood/${i}`);
  for (const answer of await Promise.all(names.map((name) => ask(lanes, account, { name, ...unread })))) {
    t.match(answer, { answer: 'deny', code: 'MD-501' });
  }
  const rows = await sql`select count(*) as count, max(i.unmapped_tools) as unmapped
    from tools t join gateway_instances i using (account_id, instance_id) where t.state = 'unmapped'`;
  t.match(rows[0], { count: 500, unmapped: 500 });
});

t.test('values read by another mapping are never decided on', async (t) => {
  const { lanes, account, sql } = await laneFixture(t);
  const fresh = await ask(lanes, account, { toolVersion: null });
  t.match(fresh, { answer: 'mapping', tool: { id: account.toolId, version: 1, mapping: { amount: '/amount' } } });
  allowed(await ask(lanes, account));
  await sql`update tools set version = 2, mapping = jsonb_set(mapping, '{amount}', '"/total"')`;
  const changed = await ask(lanes, account, { toolVersion: 1 });
  t.match(changed, { answer: 'mapping', tool: { version: 2, mapping: { amount: '/total' } } });
  t.match(await ask(lanes, account, { unreadable: 'is missing', toolVersion: 2 }), { answer: 'deny', code: 'MD-502' });
  t.equal((await chainOf(sql, account)).length, 2, 'a mapping answer decides nothing');
});

t.test('a configured template is found before a new tool is made, the most specific first', async (t) => {
  const { lanes, account, sql } = await laneFixture(t);
  await sql`insert into tools (account_id, instance_id, key, tool_id, pattern, shape, state, mapping, created_at,
      changed_at)
    select account_id, instance_id, 'http.post:/orders/{}/refund', 'tol_00000000000000000000000000',
      'http.post:/orders/{id}/refund', 'lpl', 'mapped', mapping, created_at, changed_at from tools`;
  await sql`update gateway_instances set template_shapes = '{lpl}', tools_version = tools_version + 1`;
  const answer = await ask(lanes, account, { name: 'http.post:/orders/7/refund' });
  t.match(answer, { answer: 'mapping', tool: { pattern: 'http.post:/orders/{id}/refund', shapes: ['lpl'] } });
  t.match(await ask(lanes, account, { name: 'http.post:/orders/7/other' }), { answer: 'deny', code: 'MD-501' });
  const rows = await sql`select count(*) as count from tools where key like '%refund'`;
  t.match(rows[0], { count: 1 });
});

t.test('an idempotency key is used once: in flight 409, another request 422, then the stored answer', async (t) => {
  const { lanes, account, sql } = await laneFixture(t);
  const receipt = allowed(await ask(lanes, account, { key: 'k1' }));
  t.match(await ask(lanes, account, { key: 'k1' }), { answer: 'problem', error: 'idempotency_in_flight' });
  const other = await ask(lanes, account, { key: 'k1', body: 'another' });
  t.match(other, { answer: 'problem', error: 'idempotency_mismatch' });
  const stored = { status: 201, headers: [['content-type', 'text/plain']] as [string, string][], body: 'aGk=' };
  await tell(lanes, account, receipt, { outcome: 'booked', target_status: 201, answer: stored });
  t.match(await ask(lanes, account, { key: 'k1' }), { answer: 'replay', receipt_id: receipt, stored });
  t.same(await monthOf(sql, account), { reserved: 0, booked: 100 }, 'counted once');
});

t.test('a key whose request never reached the target is free again', async (t) => {
  const { lanes, account, sql } = await laneFixture(t);
  const receipt = allowed(await ask(lanes, account, { key: 'k1' }));
  await tell(lanes, account, receipt, { outcome: 'released', cause: 'target_unreachable', target_status: null });
  t.not(allowed(await ask(lanes, account, { key: 'k1' })), receipt);
  t.same(await monthOf(sql, account), { reserved: 100, booked: 0 });
});

t.test('two requests under one key in the same batch forward once', async (t) => {
  const { lanes, account } = await laneFixture(t);
  const answers = await Promise.all([1, 2, 3].map(() => ask(lanes, account, { key: 'same' })));
  t.equal(answers.filter((answer) => answer.answer === 'allow').length, 1);
  t.equal(answers.filter((answer) => 'error' in answer && answer.error === 'idempotency_in_flight').length, 2);
});

t.test('above the threshold one escalation stands, its token works once, for this action only', async (t) => {
  const { lanes, account, sql } = await laneFixture(t, { escalation_threshold: 500 });
  const big = { amount: 501 };
  const first = await ask(lanes, account, big);
  const second = await ask(lanes, account, big);
  t.match(first, { answer: 'escalate', created: true });
  t.match(second, { answer: 'escalate', created: false });
  if (first.answer !== 'escalate' || second.answer !== 'escalate') throw new Error('not escalated');
  t.equal(second.escalation_id, first.escalation_id);
  const token = newSecretToken('etk');
  await sql`update escalations set status = 'approved', token_hash = decode(${secretHash(token)}, 'hex')`;
  const otherAction = await ask(lanes, account, { amount: 502, escalationToken: token });
  t.match(otherAction, { answer: 'deny', code: 'MD-402' });
  const both = await Promise.all([1, 2].map(() => ask(lanes, account, { ...big, escalationToken: token })));
  t.same(both.map((answer) => answer.answer).sort(), ['allow', 'deny']);
  t.match(await ask(lanes, account, { ...big, escalationToken: token }), { answer: 'deny', code: 'MD-402' });
  t.match(await ask(lanes, account, { ...big, escalationToken: newSecretToken('etk') }), { code: 'MD-402' });
});

t.test('a rejected escalation denies MD-401 and at most 20 are pending on a mandate', async (t) => {
  const { lanes, account, sql } = await laneFixture(t, { escalation_threshold: 0 });
  t.match(await ask(lanes, account, { amount: 1 }), { answer: 'escalate' });
  await sql`update escalations set status = 'rejected'`;
  t.match(await ask(lanes, account, { amount: 1 }), { answer: 'deny', code: 'MD-401' });
  const answers = await Promise.all(Array.from({ length: 21 }, (_, i) => ask(lanes, account, { amount: 100 + i })));
  t.equal(answers.filter((answer) => answer.answer === 'escalate').length, 20);
  t.equal(answers.filter((answer) => 'error' in answer && answer.error === 'too_many_escalations').length, 1);
});

t.test('a streamed body cannot be escalated, since an approval could not bind it', async (t) => {
  const { lanes, account } = await laneFixture(t, { escalation_threshold: 500 });
  t.match(await ask(lanes, account, { amount: 501, bindable: false }), { answer: 'deny', code: 'MD-503' });
  allowed(await ask(lanes, account, { amount: 500, bindable: false }));
});

t.test('a credential that cannot be opened is MD-503 and reserves nothing', async (t) => {
  const fixture = await laneFixture(t);
  const { account, sql } = fixture;
  await sql`update gateway_instances set credential_header = 'x-api-key', credential_sealed = '\\x00',
    config_version = 2`;
  const lanes = fixture.moreLanes({
    openCredential: () => {
      throw new Error('wrong master key');
    },
  });
  t.match(await ask(lanes, account), { answer: 'deny', code: 'MD-503' });
  t.same(await monthOf(sql, account), { reserved: 0, booked: 0 });
});

t.test('max_uses is exact under concurrency and the last use consumes the mandate', async (t) => {
  const fixture = await laneFixture(t, { max_uses: 3 });
  const planes = [fixture.lanes, fixture.moreLanes()];
  const answers = await Promise.all(Array.from({ length: 10 }, (_, i) => ask(planes[i % 2]!, fixture.account)));
  t.equal(answers.filter((answer) => answer.answer === 'allow').length, 3);
  for (const answer of answers.filter((one) => one.answer !== 'allow')) t.match(answer, { code: 'MD-204' });
  const [mandate] = await fixture.sql`select status, uses from mandates`;
  t.match(mandate, { status: 'consumed', uses: 3 });
});

t.test('a wrong, rotated or disabled token decides nothing', async (t) => {
  const { lanes, account, sql } = await laneFixture(t);
  const wrong = await ask(lanes, account, { tokenHash: secretHash('another') });
  t.match(wrong, { answer: 'problem', error: 'unauthenticated' });
  await sql`update gateway_instances set status = 'disabled'`;
  t.match(await ask(lanes, account), { answer: 'problem', error: 'forbidden' });
  t.equal((await chainOf(sql, account)).length, 0);
});

t.test('the rate of a token is refused with 429 beyond its burst and decides nothing', async (t) => {
  const { lanes, account, sql } = await laneFixture(t);
  await sql`update gateway_instances set rate_per_second = 1, rate_burst = 2`;
  const answers = await Promise.all(Array.from({ length: 5 }, () => ask(lanes, account)));
  t.equal(answers.filter((answer) => answer.answer === 'allow').length, 2);
  t.equal(answers.filter((answer) => 'error' in answer && answer.error === 'rate_limited').length, 3);
  t.equal((await chainOf(sql, account)).length, 2);
});
