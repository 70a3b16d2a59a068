import t, { type Test } from 'tap';
import { NoAnswer, retryAfterMs, ServiceProblem } from '../../../examples/client/answers.ts';
import { type ClientOptions, MandateClient } from '../../../examples/client/mandate-client.ts';
import type { Presentation } from '../../../examples/client/presentation.ts';
import { type FakeService, fakeService, problem, type Reply, type Seen } from './fake-service.ts';

const ACTION = { type: 'payments.create', amount: { value: 12.5, currency: 'EUR' } };
const PRESENTATION: Presentation = { mandate_id: 'mdt_1', verifier: 'acc_1', ctx: null, expires_at: '' };
const RECEIPT = { receipt_id: 'rcp_1', decided_at: '', ctx: null, evidence: { seq: 1, hash: '' } };
const ALLOW = { decision: 'allow', consumption_token: 'ctk_1', receipt: RECEIPT, mat_compact: 'a.b.c' };
const ASK = { presentation: PRESENTATION, action: ACTION };
const EXECUTION = {
  reservation_token: 'ctk_1',
  outcome: 'erfolgreich',
  executed_amount: 12.5,
  executed_currency: 'EUR',
  external_ref: 'r1',
} as const;

interface Setting {
  readonly service: FakeService;
  readonly client: MandateClient;
  /** Milliseconds of the pauses that were made. */
  readonly pauses: number[];
}

async function setting(
  t: Test,
  reply: (seen: Seen, count: number) => Reply,
  options: Partial<ClientOptions> = {},
): Promise<Setting> {
  const service = await fakeService(t, reply);
  const pauses: number[] = [];
  const sleep = async (ms: number): Promise<void> => void pauses.push(ms);
  const client = new MandateClient({ url: `${service.url}/`, apiKey: 'mak_x', sleep, ...options });
  return { service, client, pauses };
}

t.test('each call is the request that the interface names, with the key as bearer', async (t) => {
  const { service, client } = await setting(t, ({ path }) => (path === '/api/v1/verify' ? { body: ALLOW } : {}));
  const consumption = { consumption_token: 'ctk_1', final_amount: 12.5, currency: 'EUR' };
  await client.present({ mandate_id: 'mdt_1', action: ACTION });
  await client.verify({ ...ASK, escalation_token: 'etk_1' });
  await client.consume(consumption);
  await client.execute(EXECUTION);
  await client.status('mdt_1');
  await client.escalation('esc_1/../x');
  await client.denialCodes();
  t.strictSame(
    service.seen.map(({ method, path, body }) => [method, path, body === '' ? null : JSON.parse(body)]),
    [
      ['POST', '/api/v1/agents/present', { mandate_id: 'mdt_1', action: ACTION }],
      ['POST', '/api/v1/verify', { ...ASK, escalation_token: 'etk_1' }],
      ['POST', '/api/v1/consumptions', consumption],
      ['POST', '/api/v1/executions', EXECUTION],
      ['GET', '/api/v1/mandates/mdt_1/status', null],
      ['GET', '/api/v1/escalations/esc_1%2F..%2Fx', null],
      ['GET', '/api/v1/denial-codes', null],
    ],
  );
  for (const { headers, body } of service.seen) {
    t.equal(headers.authorization, 'Bearer mak_x');
    t.equal(headers['content-type'], body === '' ? undefined : 'application/json');
  }
});

t.test('a logical request keeps its idempotency key and body over retries, and the next one has another', async (t) => {
  const { service, client, pauses } = await setting(t, (_, count) => {
    if (count === 1) return 'cut';
    if (count === 2) return problem(503, 'not_decidable', { 'retry-after': '2' });
    if (count === 3) return problem(429, 'rate_limited', { 'retry-after': '1' });
    return { body: ALLOW, headers: { 'x-idempotent-replay': 'true' } };
  });
  t.match(await client.verify(ASK), { decision: 'allow', consumption_token: 'ctk_1', replayed: true });
  await client.verify(ASK, { idempotencyKey: 'mine' });
  const keys = service.seen.map(({ headers }) => headers['idempotency-key']);
  t.equal(new Set(keys.slice(0, 4)).size, 1);
  t.match(keys[0], /^[0-9a-f-]{36}$/);
  t.equal(keys[4], 'mine');
  t.equal(new Set(service.seen.map(({ body }) => body)).size, 1);
  t.strictSame(pauses.slice(1), [2000, 1000], 'what the service asked for');
});

t.test('a verify without an idempotency key is sent once, whatever happens', async (t) => {
  for (const reply of ['cut', problem(503, 'not_decidable'), problem(429, 'rate_limited')] as const) {
    const { service, client, pauses } = await setting(t, () => reply);
    await t.rejects(client.verify(ASK, { idempotencyKey: null }));
    t.equal(service.seen.length, 1);
    t.equal(service.seen[0]?.headers['idempotency-key'], undefined);
    t.strictSame(pauses, []);
  }
});

t.test('retries end: after so many attempts, and where the service asks for more patience than there is', async (t) => {
  const { service, client, pauses } = await setting(t, () => problem(503, 'overloaded'), { attempts: 3 });
  await t.rejects(client.verify(ASK), { name: 'ServiceProblem', status: 503, error: 'overloaded', requestId: 'req_1' });
  t.equal(service.seen.length, 3);
  t.ok(pauses.length === 2 && pauses.every((ms) => ms >= 100 && ms <= 400), 'they back off');
  const patient = await setting(t, () => problem(429, 'rate_limited', { 'retry-after': '20' }), { waitMaxMs: 30_000 });
  await t.rejects(patient.client.verify(ASK), { name: 'ServiceProblem', status: 429 });
  t.strictSame(patient.pauses, [20_000]);
});

t.test('what was refused for a reason is not sent again, and the reason is at hand', async (t) => {
  const fields = [{ field: 'action.amount.value', message: 'must be a JSON number' }];
  const body = { error: 'invalid', detail: 'no', fields, request_id: 'req_2' };
  const { service, client } = await setting(t, () => ({ status: 422, body }));
  const error = await client.verify(ASK).catch((reason: unknown) => reason);
  t.ok(error instanceof ServiceProblem);
  t.match(error, { status: 422, error: 'invalid', detail: 'no', fields, requestId: 'req_2' });
  t.equal(service.seen.length, 1);
});

t.test('an execution is not reported again where the first report may have arrived', async (t) => {
  const lost = await setting(t, () => 'cut');
  await t.rejects(lost.client.execute(EXECUTION), { name: 'NoAnswer' });
  t.equal(lost.service.seen.length, 1);
  const busy = await setting(t, (_, count) => (count === 1 ? problem(503, 'overloaded') : { body: {} }));
  await busy.client.execute(EXECUTION);
  t.equal(busy.service.seen.length, 2);
  const away = await setting(t, () => ({}), { attempts: 3 });
  await away.service.close();
  await t.rejects(away.client.execute(EXECUTION), { name: 'NoAnswer' });
  t.equal(away.pauses.length, 2, 'nothing arrived, so it was tried again');
});

t.test('what is no decision allows nothing', async (t) => {
  const { receipt: _, ...unreceipted } = ALLOW;
  for (const body of [{}, [], 'null', '<html>', '', { decision: 'ALLOW' }, unreceipted, { decision: 'escalate' }]) {
    const { client } = await setting(t, () => ({ body }));
    await t.rejects(client.verify(ASK), NoAnswer, JSON.stringify(body));
  }
});

t.test('the key does not follow a redirect', async (t) => {
  const other = await fakeService(t, () => ({ body: ALLOW }));
  const { client } = await setting(t, () => ({ status: 307, headers: { location: `${other.url}/api/v1/verify` } }));
  await t.rejects(client.verify(ASK), { name: 'NoAnswer' });
  t.equal(other.seen.length, 0);
});

t.test('an attempt that takes too long is no answer; the caller can end it all', async (t) => {
  const hanging = await fakeService(t, () => ({ body: ALLOW, headers: { 'content-length': '10000' } }));
  const sleep = async (): Promise<void> => {};
  const client = new MandateClient({ url: hanging.url, apiKey: 'mak_x', timeoutMs: 50, attempts: 2, sleep });
  await t.rejects(client.verify(ASK), { name: 'NoAnswer' });
  const reason = new Error('enough');
  await t.rejects(client.verify(ASK, { signal: AbortSignal.abort(reason) }), reason);
});

t.test('waiting for an escalation ends with its answer, or with the time that was given', async (t) => {
  const body = { id: 'esc_1', status: 'pending', expires_at: '' };
  const approved = { ...body, status: 'approved', escalation_token: 'etk_1' };
  const { client, pauses } = await setting(t, (_, count) => ({ body: count < 3 ? body : approved }));
  t.strictSame(await client.waitForEscalation('esc_1', { pollMs: 10 }), approved);
  t.strictSame(pauses, [10, 10]);
  const silent = await setting(t, () => ({ body }));
  t.match(await silent.client.waitForEscalation('esc_1', { pollMs: 10, maxMs: 30 }), { status: 'pending' });
  t.equal(silent.service.seen.length, 4);
});

t.test('Retry-After is read in seconds and as a date', async (t) => {
  const now = Date.UTC(2026, 0, 1);
  t.equal(retryAfterMs('3', now), 3000);
  t.equal(retryAfterMs(new Date(now + 5000).toUTCString(), now), 5000);
  t.equal(retryAfterMs(new Date(now - 5000).toUTCString(), now), 0);
  for (const header of [null, 'soon', '-1x']) t.equal(retryAfterMs(header, now), null);
});
