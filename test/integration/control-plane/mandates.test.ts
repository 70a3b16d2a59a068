import t from 'tap';
import { newTypeId } from '../../../core/type-id.ts';
import { allowed, ask, tell } from '../decisions/lane-client.ts';
import { at, textAt } from './admin-fixture.ts';
import { fieldsOf, MANDATE, type NounFixture, nounFixture, problemOf } from './noun-fixture.ts';

const DID = 'did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK';

async function refusedField(fixture: NounFixture, changes: Record<string, unknown>): Promise<string[]> {
  const answer = await fixture.as('POST', '/admin/mandates', { ...MANDATE, ...changes });
  return answer.status === 422 ? fieldsOf(answer) : [`${answer.status} ${answer.text}`];
}

t.test('a mandate comes back as it was written, and its evidence holds all of its terms', async (t) => {
  const fixture = await nounFixture(t);
  const written = {
    name: 'Einkauf',
    scope: ['payments.create', 'refunds.*'],
    amount_limit_per_action: 0.29,
    amount_limit_per_month: 1234567.89,
    escalation_threshold: 0,
    currency: 'EUR',
    counterparties: ['acme', 'Mu\u0308ller'],
    agent_did: DID,
    time_zone: 'Europe/Berlin',
    valid_until: '2099-12-31T23:59:59+01:00',
    max_uses: 3,
  };
  const made = await fixture.as('POST', '/admin/mandates', written);
  t.equal(made.status, 201);
  const id = textAt(made, 'mandate_id');
  const expected = { ...written, counterparties: ['acme', 'M\u00fcller'], valid_until: '2099-12-31T22:59:59.000Z' };
  t.match(made.body, { ...expected, status: 'draft', version: 1, uses: 0 });
  t.match(made.body, { usage: { booked: 0, reserved: 0, remaining: 1234567.89 } });
  t.same((await fixture.as('GET', `/admin/mandates/${id}`)).body, made.body);
  const { counterparties, ...listed } = made.body as Record<string, unknown> & { counterparties: string[] };
  const list = { mandates: [{ ...listed, counterparty_count: counterparties.length }], next: null };
  t.same((await fixture.as('GET', '/admin/mandates')).body, list);
  const entry = (await fixture.chain()).at(-1);
  t.equal(entry?.kind, 'mandate.created');
  t.same(entry?.body, {
    name: 'Einkauf',
    digest: at(made, 'digest'),
    terms: {
      mandate_id: id,
      version: 1,
      scope: written.scope,
      currency: 'EUR',
      per_action: 29,
      per_month: 123456789,
      escalation_threshold: 0,
      counterparties: expected.counterparties,
      agent_did: DID,
      time_zone: 'Europe/Berlin',
      valid_until: expected.valid_until,
      max_uses: 3,
    },
  });
});

t.test('what is left out has its default: EUR, UTC, anyone, no end, nobody to ask, and no effect yet', async (t) => {
  const { as } = await nounFixture(t);
  const { activate: _, ...least } = MANDATE;
  t.match((await as('POST', '/admin/mandates', least)).body, {
    status: 'draft',
    currency: 'EUR',
    time_zone: 'UTC',
    counterparties: [],
    agent_did: '',
    escalation_threshold: null,
    valid_until: null,
    max_uses: null,
  });
});

t.test('amounts are read from their digits, in the decimals of their currency', async (t) => {
  const fixture = await nounFixture(t);
  const { as, sql } = fixture;
  const send = (currency: string, amount: string) =>
    as(
      'POST',
      '/admin/mandates',
      `{"scope":["a"],"currency":"${currency}","amount_limit_per_action":${amount},"amount_limit_per_month":${amount}}`,
    );
  const minor = async (currency: string, amount: string) => {
    const id = textAt(await send(currency, amount), 'mandate_id');
    return (await sql<{ per_action: number }[]>`select per_action from mandates where mandate_id = ${id}`)[0]
      ?.per_action;
  };
  t.equal(await minor('EUR', '1.10'), 110);
  t.equal(await minor('EUR', '8.2'), 820);
  t.equal(await minor('EUR', '9007199254740.99'), 900719925474099);
  t.equal(await minor('EUR', '10000000000000'), 1_000_000_000_000_000);
  t.equal(await minor('JPY', '500'), 500);
  t.equal(await minor('BHD', '0.001'), 1);
  for (const [currency, amount] of [
    ['EUR', '1.001'],
    ['EUR', '-1'],
    ['EUR', '10000000000000.01'],
    ['EUR', '1e2'],
    ['JPY', '0.5'],
  ] as const) {
    const answer = await send(currency, amount);
    t.same(problemOf(answer), [422, 'invalid'], `${amount} ${currency}`);
    t.same(fieldsOf(answer), ['amount_limit_per_action', 'amount_limit_per_month'], 'both are named');
  }
});

t.test('what cannot be a mandate is refused, naming the field', async (t) => {
  const fixture = await nounFixture(t);
  const refusals: [string, Record<string, unknown>][] = [
    ['(body)', { limit: 1 }],
    ['name', { name: '' }],
    ['name', { name: 'x'.repeat(201) }],
    ['name', { name: 'a\u0000b' }],
    ['scope', { scope: undefined }],
    ['scope', { scope: [] }],
    ['scope', { scope: 'payments' }],
    ['scope', { scope: Array.from({ length: 101 }, (_, n) => `a${n}`) }],
    ['scope.1', { scope: ['payments', 'Payments'] }],
    ['scope.0', { scope: ['*'] }],
    ['scope.0', { scope: ['payments..create'] }],
    ['scope.0', { scope: ['a'.repeat(129)] }],
    ['amount_limit_per_action', { amount_limit_per_action: '100' }],
    ['amount_limit_per_month', { amount_limit_per_month: null }],
    ['escalation_threshold', { escalation_threshold: 0.001 }],
    ['currency', { currency: 'eur' }],
    ['currency', { currency: 'XXQ' }],
    ['counterparties.0', { counterparties: [''] }],
    ['counterparties.0', { counterparties: ['x'.repeat(257)] }],
    ['agent_did', { agent_did: 'did:web:example.com' }],
    ['agent_did', { agent_did: `${DID}a` }],
    ['agent_did', { agent_did: DID.replace('z6Mk', 'z6LS') }],
    ['agent_did', { agent_did: DID.replace('2doK', '2doO') }],
    ['time_zone', { time_zone: 'Mars/Olympus' }],
    ['time_zone', { time_zone: 'europe/berlin' }],
    ['time_zone', { time_zone: '+02:00' }],
    ['time_zone', { time_zone: "UTC'" }],
    ['valid_until', { valid_until: '2020-01-01T00:00:00Z' }],
    ['valid_until', { valid_until: '2099-01-01' }],
    ['valid_until', { valid_until: '2099-01-01T00:00:00' }],
    ['valid_until', { valid_until: '2099-02-30T00:00:00Z' }],
    ['valid_until', { valid_until: '2099-01-01T24:00:00Z' }],
    ['valid_until', { valid_until: '9999-12-31T23:59:59-01:00' }],
    ['max_uses', { max_uses: 0 }],
    ['max_uses', { max_uses: 1.5 }],
    ['activate', { activate: 'yes' }],
  ];
  for (const [field, changes] of refusals) {
    t.same(await refusedField(fixture, changes), [field], JSON.stringify(changes).slice(0, 60));
  }
  t.equal((await fixture.sql`select from mandates`).length, 0);
  t.same(
    (await fixture.chain()).map(({ kind }) => kind),
    ['account.created', 'account.second_factor', 'session.created'],
  );
});

t.test('a mandate moves as the table of states says, and no other way', async (t) => {
  const { as, mandate, chain } = await nounFixture(t);
  const steps = ['activate', 'suspend', 'resume', 'revoke'] as const;
  const allowedFrom: Record<string, Partial<Record<(typeof steps)[number], string>>> = {
    draft: { activate: 'active', revoke: 'revoked' },
    active: { suspend: 'suspended', revoke: 'revoked' },
    suspended: { resume: 'active', revoke: 'revoked' },
    revoked: {},
  };
  const reach: Record<string, readonly string[]> = {
    draft: [],
    active: ['activate'],
    suspended: ['activate', 'suspend'],
    revoked: ['revoke'],
  };
  for (const [from, moves] of Object.entries(allowedFrom)) {
    for (const step of steps) {
      const id = await mandate({ activate: false });
      for (const before of reach[from] ?? []) await as('POST', `/admin/mandates/${id}/${before}`);
      const answer = await as('POST', `/admin/mandates/${id}/${step}`, { reason: 'as planned' });
      const to = moves[step];
      if (to === undefined) t.same(problemOf(answer), [409, 'conflict'], `${step} from ${from}`);
      else t.match(answer.body, { mandate_id: id, status: to }, `${step} from ${from}`);
      const last = (await chain()).at(-1);
      const recorded = { mandate_id: id, status: to, reason: 'as planned', digest: at(answer, 'digest') };
      if (to !== undefined) t.match(last?.body, recorded, 'with its reason');
    }
  }
  const id = await mandate();
  for (const body of [{ reason: 'x'.repeat(501) }, { reason: '' }, { why: 'x' }]) {
    t.same(problemOf(await as('POST', `/admin/mandates/${id}/suspend`, body)), [422, 'invalid']);
  }
});

t.test('of many moves at once from one state exactly one is made and recorded', async (t) => {
  const { as, mandate, chain } = await nounFixture(t);
  const id = await mandate();
  const answers = await Promise.all(Array.from({ length: 8 }, () => as('POST', `/admin/mandates/${id}/suspend`)));
  t.same(answers.map((answer) => answer.status).sort(), [200, ...Array(7).fill(409)]);
  t.equal((await chain()).filter(({ kind }) => kind === 'mandate.suspended').length, 1);
});

t.test('a mandate whose time is over cannot be brought back before the clock has moved it', async (t) => {
  const fixture = await nounFixture(t);
  const [row] = await fixture.sql<{ soon: number }[]>`select epoch_ms(db_clock()) + 60000 as soon`;
  const valid_until = new Date(row?.soon ?? 0).toISOString();
  const id = await fixture.mandate({ valid_until, activate: false });
  await fixture.advance(60);
  t.same(problemOf(await fixture.as('POST', `/admin/mandates/${id}/activate`)), [409, 'conflict']);
  t.match((await fixture.as('POST', `/admin/mandates/${id}/revoke`)).body, { status: 'revoked' });
});

t.test('the next decision sees a suspension, and the next one after that the resumption', async (t) => {
  const fixture = await nounFixture(t);
  const agent = await fixture.agent();
  const mapping = { action_type: 'payments.create' };
  const mapped = await fixture.as('PUT', `/admin/gateways/${agent.instanceId}/tools`, {
    name: 'http.post:/payments',
    mapping,
  });
  const account = { ...agent, toolId: textAt(mapped, 'tool_id') };
  allowed(await ask(fixture.lanes, account));
  await fixture.as('POST', `/admin/mandates/${agent.mandateId}/suspend`);
  t.match(await ask(fixture.lanes, account), { answer: 'deny', code: 'MD-203' });
  await fixture.as('POST', `/admin/mandates/${agent.mandateId}/resume`);
  allowed(await ask(fixture.lanes, account));
  await fixture.as('POST', `/admin/mandates/${agent.mandateId}/revoke`);
  t.match(await ask(fixture.lanes, account), { answer: 'deny', code: 'MD-204' });
});

t.test('usage is of the present month in the mandate’s time zone', async (t) => {
  const fixture = await nounFixture(t);
  const agent = await fixture.agent({ time_zone: 'Pacific/Auckland' });
  const mapped = await fixture.as('PUT', `/admin/gateways/${agent.instanceId}/tools`, {
    name: 'http.post:/payments',
    mapping: { action_type: 'payments.create' },
  });
  const account = { ...agent, toolId: textAt(mapped, 'tool_id') };
  const show = () => fixture.as('GET', `/admin/mandates/${agent.mandateId}`);
  const at2030 = (time: string) =>
    fixture.sql.unsafe(`create or replace function db_clock() returns timestamptz language sql volatile parallel safe
      as $$ select '${time}'::timestamptz $$`);
  await fixture.sql`update sessions set expires_at = '2031-01-01'`;
  // Auckland is 12 h ahead of UTC in June and 13 h ahead in November.
  await at2030('2030-06-30T11:59:59.999Z');
  const receipt = allowed(await ask(fixture.lanes, account, { amount: 1050 }));
  allowed(await ask(fixture.lanes, account, { amount: 25 }));
  await tell(fixture.lanes, account, receipt, { outcome: 'booked' });
  t.match(at(await show(), 'usage'), {
    month: '2030-06',
    booked: 10.5,
    reserved: 0.25,
    remaining: 989.25,
    resets_at: '2030-06-30T12:00:00.000Z',
  });
  await at2030('2030-06-30T12:00:00.000Z');
  t.match(at(await show(), 'usage'), { month: '2030-07', booked: 0, reserved: 0, remaining: 1000 });
  await at2030('2030-11-15T00:00:00.000Z');
  t.match(at(await show(), 'usage'), { month: '2030-11', resets_at: '2030-11-30T11:00:00.000Z' });
});

t.test('an identifier that is none, or of another kind, is not found', async (t) => {
  const { as } = await nounFixture(t);
  for (const id of [newTypeId('mdt', 0), newTypeId('gwi', 0), 'mdt_', 'x', '%00', `mdt_${'0'.repeat(26)}`]) {
    t.same(problemOf(await as('GET', `/admin/mandates/${id}`)), [404, 'not_found'], id);
    t.same(problemOf(await as('POST', `/admin/mandates/${id}/revoke`, {})), [404, 'not_found'], id);
  }
});
