import fc from 'fast-check';
import t from 'tap';
import { searchDecisions } from '../../../control-plane/evidence/search.ts';
import { indexChain } from '../../../control-plane/evidence/search-index.ts';
import { indexDecisions } from '../../../control-plane/jobs/index-decisions.ts';
import { DECISION_KINDS, type DecisionFilter, decisionSummary, matchesFilter } from '../../../core/decision-search.ts';
import { newTypeId } from '../../../core/type-id.ts';
import { allowed, ask, chainOf, type LaneFixture, tell } from '../decisions/lane-client.ts';
import { verified, verifyAsk, verifyFixture } from '../decisions/verify-client.ts';
import { at, textAt } from './admin-fixture.ts';
import { fieldsOf, MANDATE, nounFixture } from './noun-fixture.ts';

/** Some hundred decisions of every kind, with outcomes and commands between them. */
async function busy(fixture: LaneFixture & Parameters<typeof verifyAsk>[0], rounds = 40): Promise<void> {
  for (let round = 0; round < rounds; round++) {
    const amount = (round * 37) % 400;
    const [first] = await Promise.all([
      ask(fixture.lanes, fixture.account, { amount, counterparty: round % 3 === 0 ? 'acme' : null }),
      ask(fixture.lanes, fixture.account, { amount: 501 + amount }),
      ask(fixture.lanes, fixture.account, { unreadable: 'no amount' }),
      ask(fixture.lanes, fixture.account, { name: 'http.post:/unmapped', toolVersion: null }),
      ask(fixture.lanes, fixture.account, { amount: 5, currency: 'USD' }),
      verified(fixture, verifyAsk(fixture, { amount })),
    ]);
    if (first.answer === 'allow') await tell(fixture.lanes, fixture.account, allowed(first), { outcome: 'booked' });
  }
}

const LIMITS = { per_action: 700, escalation_threshold: 600 };

/** All pages of a search, one after another. */
async function searched(
  fixture: LaneFixture,
  filter: DecisionFilter,
  { limit = 7, looks }: { readonly limit?: number; readonly looks?: readonly number[] } = {},
): Promise<number[]> {
  const found: number[] = [];
  let before: number | null = null;
  do {
    const asked = { before, limit, ...(looks === undefined ? {} : { looks }) };
    const page = await searchDecisions(fixture.sql, fixture.account.accountId, filter, asked);
    if (page.decisions.length > limit) throw new Error('a page is longer than asked for');
    found.push(...page.decisions.map(({ seq }) => seq));
    if (page.nextBefore !== null && before !== null && page.nextBefore >= before)
      throw new Error('a page goes nowhere');
    before = page.nextBefore;
  } while (before !== null);
  return found;
}

/** What a search must find: every decision of the chain that matches, one by one. */
async function bruteForce(fixture: LaneFixture) {
  const entries = (await chainOf(fixture.sql, fixture.account)).filter(({ kind }) => kind === 'decision');
  const summaries = entries.map((entry) => decisionSummary(entry)!).reverse();
  return {
    summaries,
    of: (filter: DecisionFilter) => summaries.filter((one) => matchesFilter(one, filter)).map(({ seq }) => seq),
  };
}

t.test('a search finds exactly what a look at every entry finds, however far the index is', async (t) => {
  const fixture = await verifyFixture(t, LIMITS);
  await busy(fixture);
  const { summaries, of } = await bruteForce(fixture);
  t.ok(summaries.length >= 200);
  const some = <K extends keyof (typeof summaries)[0]>(name: K) =>
    fc.constantFrom(...new Set(summaries.map((one) => one[name])));
  const times = fc
    .constantFrom(...summaries.map(({ atMs }) => atMs))
    .chain((ms) => fc.constantFrom(ms - 1, ms, ms + 1));
  const filter = fc.record(
    {
      subjectId: some('subjectId'),
      mandateId: fc.constantFrom(fixture.account.mandateId, newTypeId('mdt', 0)),
      agent: some('agent').map((agent) => agent ?? 'did:key:zNobody'),
      decision: fc.constantFrom(...DECISION_KINDS),
      code: some('code').map((code) => code ?? 'MD-303'),
      fromMs: times,
      toMs: times,
      currency: fc.constantFrom('EUR', 'USD', 'JPY'),
      minAmount: fc.integer({ min: 0, max: 900 }),
      maxAmount: fc.integer({ min: 0, max: 900 }),
    },
    { requiredKeys: [] },
  );
  // As far as that a page stops on its way, which takes hundreds of thousands of decisions otherwise.
  const looks = fc.array(fc.integer({ min: 1, max: 90 }), { minLength: 1, maxLength: 4 });
  const check = async (numRuns: number) => {
    await fc.assert(
      fc.asyncProperty(filter, fc.integer({ min: 1, max: 50 }), looks, async (given, limit, far) => {
        t.same(await searched(fixture, given, { limit, looks: far }), of(given));
      }),
      { numRuns },
    );
  };
  await check(30);
  for (let part = 0; part < 3; part++) {
    await indexChain(fixture.sql, fixture.account.accountId, 70);
    await check(40);
  }
  while ((await indexChain(fixture.sql, fixture.account.accountId, 70)) > 0);
  await check(60);
  const [one] = summaries;
  t.same(await searched(fixture, { receiptId: one!.receiptId }), [one!.seq]);
  t.same(
    await searched(fixture, { receiptId: one!.receiptId, decision: 'allow' }),
    one!.decision === 'allow' ? [one!.seq] : [],
  );
  t.same(await searched(fixture, { receiptId: newTypeId('rcp', 0) }), []);
});

t.test('replicas that index at once, and one that dies on the way, count every decision once', async (t) => {
  const fixture = await verifyFixture(t, LIMITS);
  await busy(fixture, 20);
  const { accountId } = fixture.account;
  const { summaries } = await bruteForce(fixture);
  await fixture.sql.unsafe(`create function fails() returns trigger language plpgsql as
    $$ begin raise exception 'the machine died'; end $$;
    create trigger fails after insert on decision_days execute function fails()`);
  await t.rejects(indexChain(fixture.sql, accountId, 50), /died/);
  t.same(await fixture.sql`select seq from decision_search`, [], 'nothing is half done');
  await fixture.sql.unsafe('drop trigger fails on decision_days');
  for (let round = 0; round < 20; round++) {
    await Promise.all(Array.from({ length: 4 }, () => indexChain(fixture.sql, accountId, 11)));
  }
  while (await indexDecisions({ sql: fixture.sql }));
  const rows = await fixture.sql<{ seq: number }[]>`select seq from decision_search order by seq desc`;
  t.same(
    rows.map(({ seq }) => seq),
    summaries.map(({ seq }) => seq),
  );
  const days = await fixture.sql<{ decision: string; code: string; decisions: number; amount: string }[]>`
    select decision, code, sum(decisions)::bigint as decisions, sum(amount) as amount from decision_days group by 1, 2`;
  for (const { decision, code, decisions, amount } of days) {
    const own = summaries.filter((one) => one.decision === decision && (one.code ?? '') === code);
    t.equal(decisions, own.length, `${decision} ${code}`);
    const sum = own.reduce((all, one) => all + (one.currency === 'EUR' ? (one.amount ?? 0) : 0), 0);
    t.equal(Number(amount), sum, `${decision} ${code}`);
  }
  t.equal(
    days.reduce((all, { decisions }) => all + decisions, 0),
    summaries.length,
  );
  const [position] = await fixture.sql<{ next_seq: number; size: number }[]>`
    select next_seq, size from decision_positions join account_heads using (account_id)
    where account_id = ${accountId}`;
  t.equal(position?.next_seq, position?.size);
});

t.test('people find decisions by what they know of them, page by page', async (t) => {
  const fixture = await nounFixture(t);
  const agent = await fixture.agent();
  const tools = `/admin/gateways/${agent.instanceId}/tools`;
  const mapped = await fixture.as('PUT', tools, {
    name: 'http.post:/payments',
    mapping: { action_type: 'payments.create' },
  });
  const account = { ...agent, toolId: textAt(mapped, 'tool_id') };
  for (const amount of [100, 20_000, 300, 400]) await ask(fixture.lanes, account, { amount });
  const find = (query: string) => fixture.as('GET', `/admin/decisions?${query}`);
  const amounts = async (query: string) =>
    (at(await find(query), 'decisions') as { action: { amount: { value: number } } }[]).map(
      ({ action }) => action.amount.value,
    );
  t.same(await amounts(''), [4, 3, 200, 1]);
  t.same(await amounts('currency=EUR&min_amount=3&max_amount=4.00'), [4, 3]);
  t.same(await amounts('code=MD-302'), [200]);
  t.same(await amounts(`instance=${agent.instanceId}&decision=allow&mandate=${agent.mandateId}`), [4, 3, 1]);
  const page = await find('limit=2');
  t.match(at(page, 'decisions'), [
    {
      decision: 'allow',
      code: null,
      action: { type: 'payments.create', counterparty: 'acme' },
      instance_id: agent.instanceId,
    },
    { mandate: { id: agent.mandateId, version: 1 }, tool: { key: 'http.post:/payments', state: 'mapped' } },
  ]);
  t.same(await amounts(`limit=2&before_seq=${at(page, 'next_before_seq')}`), [200, 1]);
  t.same(await amounts(`receipt=${textAt(page, 'decisions.1.receipt_id')}`), [3]);
  t.same(await amounts('to=2001-01-01T00:00:00Z'), []);
  t.same((await amounts('from=2001-01-01T00:00:00%2B02:00&to=9999-12-31T23:59:59-12:00')).length, 4);
  t.same(fieldsOf(await find('min_amount=3')), ['currency']);
  t.same(fieldsOf(await find('currency=EUR&min_amount=1.234&max_amount=-1')), ['min_amount', 'max_amount']);
  t.same(fieldsOf(await find('code=MD-999&decision=maybe&receipt=x&from=now')).length, 4);
  t.same(fieldsOf(await find(`instance=${agent.instanceId}&key=${newTypeId('key', 0)}`)), ['key']);
  const stranger = await fixture.signUp();
  t.match((await fixture.send('GET', '/admin/decisions', stranger.token)).body, {
    decisions: [],
    next_before_seq: null,
  });
  t.same((await fixture.send('GET', '/admin/decisions', null)).status, 401);
});

t.test('days count what was decided, in the time zone of the mandate, indexed or not', async (t) => {
  const fixture = await nounFixture(t);
  const agent = await fixture.agent({ time_zone: 'Pacific/Kiritimati', amount_limit_per_month: 1000 });
  const tools = `/admin/gateways/${agent.instanceId}/tools`;
  const mapped = await fixture.as('PUT', tools, {
    name: 'http.post:/payments',
    mapping: { action_type: 'payments.create' },
  });
  const account = { ...agent, toolId: textAt(mapped, 'tool_id') };
  for (const amount of [100, 250, 20_000, 30_000]) await ask(fixture.lanes, account, { amount });
  const zoned = new Intl.DateTimeFormat('en-CA', { timeZone: 'Pacific/Kiritimati' });
  const [row] = await fixture.sql<{ now: number }[]>`select epoch_ms(db_clock()) as now`;
  const day = zoned.format(row!.now);
  const query = `from=${zoned.format(row!.now - 86_400_000)}&to=${day}&mandate=${agent.mandateId}`;
  const counted = async () => (await fixture.as('GET', `/admin/decisions/days?${query}`)).body;
  const common = { day, mandate_id: agent.mandateId };
  const wanted = {
    days: [
      { ...common, decision: 'allow', code: null, decisions: 2, amount: { value: 3.5, currency: 'EUR' } },
      { ...common, decision: 'deny', code: 'MD-302', decisions: 2, amount: { value: 500, currency: 'EUR' } },
    ],
    uncounted_from_seq: null,
  };
  t.same(await counted(), wanted, 'before the job has come');
  while (await indexDecisions({ sql: fixture.deps.sql }));
  t.same(await counted(), wanted, 'and after it');
  await ask(fixture.lanes, account, { amount: 100 });
  t.match(
    await counted(),
    { days: [{ decisions: 3, amount: { value: 4.5 } }, { decisions: 2 }] },
    'and with some left',
  );
  const wrong = await fixture.as('GET', '/admin/decisions/days?from=2030-02-30&to=2030-01-01');
  t.same(fieldsOf(wrong), ['from']);
  t.same(fieldsOf(await fixture.as('GET', '/admin/decisions/days?from=2030-01-02&to=2030-01-01')), ['to']);
  t.same(fieldsOf(await fixture.as('GET', '/admin/decisions/days?from=2030-01-02&to=2032-01-01')), ['to']);
});

t.test('sums beyond what an amount can be do not stop the counting', async (t) => {
  const fixture = await nounFixture(t);
  const agent = await fixture.agent();
  const tools = `/admin/gateways/${agent.instanceId}/tools`;
  const mapped = await fixture.as('PUT', tools, {
    name: 'http.post:/payments',
    mapping: { action_type: 'payments.create' },
  });
  const account = { ...agent, toolId: textAt(mapped, 'tool_id') };
  for (let i = 0; i < 3; i++) await ask(fixture.lanes, account, { amount: 1_000_000_000_000_000 });
  while (await indexDecisions({ sql: fixture.deps.sql }));
  await fixture.sql`update decision_days set amount = 99999999999999999999999999`;
  await ask(fixture.lanes, account, { amount: 1_000_000_000_000_000 });
  while (await indexDecisions({ sql: fixture.deps.sql }));
  const [row] = await fixture.sql<{ day: string }[]>`select day from decision_days`;
  const found = await fixture.as('GET', `/admin/decisions/days?from=${row?.day}&to=${row?.day}`);
  t.match(at(found, 'days'), [{ decisions: 4, amount: { value: 10_000_000_000_000 } }]);
});

t.test('a chain that cannot be indexed keeps no other from it, and is tried again later', async (t) => {
  const fixture = await nounFixture(t);
  const bad = await fixture.signUp();
  await fixture.send('POST', '/admin/mandates', bad.token, MANDATE);
  await fixture.sql.unsafe(`create function broken() returns trigger language plpgsql as $$ begin
    if new.account_id = '${bad.accountId}' then raise exception 'broken'; end if; return new; end $$;
    create trigger broken before insert on decision_positions for each row execute function broken()`);
  await t.rejects(indexDecisions({ sql: fixture.deps.sql }), { message: 'broken' });
  const indexed = () => fixture.sql`select from decision_positions where account_id = ${fixture.person.accountId}`;
  t.equal((await indexed()).length, 1);
  t.equal(await indexDecisions({ sql: fixture.deps.sql }), false, 'and it is left alone for a while');
});
