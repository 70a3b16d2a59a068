import { hash } from 'node:crypto';
import t from 'tap';
import { type Browser, type ConsoleFixture, type ConsolePerson, consoleFixture } from './console-fixture.ts';
import { hiddenFields, unescaped } from './mandate-fixture.ts';

const NEW = '/console/mandates/new';
const DID = 'did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK';

const AGENT = { step: 'agent', go: 'next', name: 'Purchasing <b>', agent_kind: 'custody', agent_did: '' };
const ACTIONS = { step: 'actions', go: 'next', more: 'payments.*\norders.create' };
const LIMITS = {
  ...{ step: 'limits', go: 'next', per_action: '250.00', per_month: '1000' },
  ...{ threshold: '100', currency: 'EUR', time_zone: 'Europe/Berlin' },
};
const CONDITIONS = {
  ...{ step: 'conditions', go: 'next', counterparties: 'acme\r\nx<b>y', valid_day: '2031-01-31' },
  ...{ valid_time: '', max_uses: '50' },
};

/** Goes through the steps with what each page carried; returns the last page. */
async function walk(browser: Browser, steps: readonly Readonly<Record<string, string>>[]) {
  let page = await browser.get(NEW);
  for (const step of steps) page = await browser.post(NEW, { ...hiddenFields(page.text), ...step });
  return page;
}

const REVIEWED = [AGENT, ACTIONS, LIMITS, CONDITIONS];

async function start(t: Parameters<typeof consoleFixture>[0]): Promise<ConsoleFixture & { person_: ConsolePerson }> {
  const fixture = await consoleFixture(t);
  return { ...fixture, person_: await fixture.person() };
}

t.test(
  'a mandate is written step by step without a script, and what was read is what the evidence names',
  async (t) => {
    const { sql, person_, errors } = await start(t);
    const { browser, accountId } = person_;
    const review = await walk(browser, REVIEWED);
    t.equal(review.status, 200);
    t.match(review.text, /Above 100\.00 EUR a human must approve each action\./);
    t.match(review.text, /- payments\.\* \(everything below payments\)/);
    t.match(review.text, /ends on 2031-01-31 at 23:00:00 UTC/, 'the end of that day in the zone of the mandate');
    t.notMatch(review.text, /x<b>y/);
    t.same(await sql`select from mandates`, [], 'nothing is saved before the end');
    const done = await browser.post(NEW, { ...hiddenFields(review.text), go: 'activate' });
    t.equal(done.status, 303);
    t.match(done.location, /^\/console\/mandates\/mdt_/);
    const [row] = await sql`
    select status, name, scope, per_action, per_month, escalation_threshold, counterparties, max_uses, time_zone,
      rfc3339(valid_until) as until from mandates where account_id = ${accountId}`;
    t.match(row, {
      ...{ status: 'active', name: 'Purchasing <b>', scope: ['payments.*', 'orders.create'], per_action: 25_000 },
      ...{ per_month: 100_000, escalation_threshold: 10_000, counterparties: ['acme', 'x<b>y'], max_uses: 50 },
      ...{ time_zone: 'Europe/Berlin', until: '2031-01-31T23:00:00.000Z' },
    });
    const [entry] = await sql<{ body: string }[]>`
    select body from evidence where account_id = ${accountId} and kind = 'mandate.activated'`;
    const shown = /<p class="wording">([^<]*)<\/p>/.exec(review.text)?.[1] ?? '';
    const sha256 = hash('sha256', unescaped(shown), 'hex');
    t.match(JSON.parse(entry?.body ?? '{}'), { wording: { language: 'en', sha256 } });
    const page = await browser.get(done.location ?? '');
    t.match(page.text, /role="status"/);
    t.match(page.text, /Purchasing &lt;b&gt;/);
    t.same(errors, []);
  },
);

t.test('a draft allows nothing until it is activated, after its words were read', async (t) => {
  const { sql, person_ } = await start(t);
  const { browser } = person_;
  const review = await walk(browser, REVIEWED);
  const done = await browser.post(NEW, { ...hiddenFields(review.text), go: 'draft' });
  const own = done.location ?? '';
  t.same(await sql`select status from mandates`, [{ status: 'draft' }]);
  const ask = await browser.get(`${own}/activate`);
  t.match(ask.text, /<p class="wording">/);
  await sql`update mandates set per_action = per_action + 1, version = version + 1, digest = 'sha-256:x'`;
  const stale = await browser.post(`${own}/activate`, hiddenFields(ask.text));
  t.equal(stale.status, 409, 'the terms changed under the reader');
  t.match(stale.text, /Read it again/);
  const again = await browser.post(`${own}/activate`, hiddenFields(stale.text));
  t.equal(again.status, 303);
  t.same(await sql`select status from mandates`, [{ status: 'active' }]);
});

t.test('a wrong answer is told beside its field, and nothing that was typed is lost', async (t) => {
  const { person_, sql } = await start(t);
  const { browser } = person_;
  const unnamed = await walk(browser, [{ ...AGENT, name: ' ' }]);
  t.equal(unnamed.status, 422);
  t.match(unnamed.text, /id="f-name-error"/);
  const scope = await walk(browser, [AGENT, { ...ACTIONS, more: 'payments.*\nPay Me' }]);
  t.equal(scope.status, 422);
  t.match(scope.text, /id="f-more-error">“Pay” is no action type/);
  t.match(scope.text, /payments\.\*\nPay\nMe<\/textarea>/);
  t.match(scope.text, /name="name" value="Purchasing &lt;b&gt;"/, 'the step before is carried along');
  const limits = await walk(browser, [
    ...[AGENT, ACTIONS],
    { ...LIMITS, per_action: '1.234', per_month: '', threshold: '-1', currency: 'XYZ', time_zone: 'Mars/Olympus' },
  ]);
  t.equal(limits.status, 422);
  for (const field of ['per_action', 'per_month', 'threshold', 'currency', 'time_zone']) {
    t.match(limits.text, `id="f-${field.replace('_', '-')}-error"`, field);
  }
  t.match(limits.text, /name="per_action"[^>]* value="1\.234"|value="1\.234"/);
  const wrong = { valid_day: '2031-02-30', valid_time: '25:00', max_uses: '0', counterparties: 'a\u202eb' };
  const conditions = await walk(browser, [AGENT, ACTIONS, LIMITS, { ...CONDITIONS, ...wrong }]);
  t.equal(conditions.status, 422);
  for (const field of ['valid-day', 'valid-time', 'max-uses', 'counterparties']) {
    t.match(conditions.text, `id="f-${field}-error"`, field);
  }
  const past = await walk(browser, [AGENT, ACTIONS, LIMITS, { ...CONDITIONS, valid_day: '2001-01-01' }]);
  t.match(past.text, /This moment is over/);
  t.same(await sql`select from mandates`, []);
});

t.test('a did:key that is none is refused with its reason', async (t) => {
  const { person_ } = await start(t);
  const { browser } = person_;
  const reasons = [
    ['', /Enter the did:key/],
    ['did:web:example.com', /must begin with did:key/],
    [`${DID}#key-1`, /Leave out everything from #/],
    ['did:key:zDnaerDaTF5BXEavCrfRZEk316dpbLsfPDZ3WJ5hRTPFU2169', /another kind/],
    [DID.replace('h', 'l'), /a character that a did:key cannot have/],
    [DID.slice(0, -1), /has 56 characters; this has 55/],
  ] as const;
  for (const [did, reason] of reasons) {
    const page = await walk(browser, [{ ...AGENT, agent_kind: 'own', agent_did: did }]);
    t.equal(page.status, 422, did);
    t.match(page.text, reason, did);
  }
  const right = await walk(browser, [{ ...AGENT, agent_kind: 'own', agent_did: ` ${DID} ` }]);
  t.equal(right.status, 200);
  t.match(right.text, /Step 2 of 5/);
});

t.test('going back and forth keeps every answer', async (t) => {
  const { person_ } = await start(t);
  const { browser } = person_;
  const review = await walk(browser, REVIEWED);
  const limits = await browser.post(NEW, { ...hiddenFields(review.text), go: 'to-limits' });
  t.match(limits.text, /value="250\.00"/);
  const actions = await browser.post(NEW, { ...hiddenFields(limits.text), ...LIMITS, per_action: '300', go: 'back' });
  t.match(actions.text, /payments\.\*\norders\.create<\/textarea>/);
  const agent = await browser.post(NEW, { ...hiddenFields(actions.text), ...ACTIONS, go: 'back' });
  t.match(agent.text, /value="Purchasing &lt;b&gt;"/);
  t.equal(hiddenFields(agent.text)['per_action'], '300');
});

t.test('an account that has as many mandates as it may is told so, and not that the words changed', async (t) => {
  const { person_, sql } = await start(t);
  const { browser, accountId } = person_;
  const review = await walk(browser, REVIEWED);
  await sql`
    insert into mandates (account_id, mandate_id, name, status, scope, currency, per_action, per_month, digest,
      created_at, changed_at)
    select ${accountId}, 'mdt_' || lpad(n::text, 26, '0'), 'Copy', 'draft', '{a.b}', 'EUR', 1, 1,
      'sha-256:' || repeat('0', 64), db_clock(), db_clock() from generate_series(1, 1000) n`;
  const full = await browser.post(NEW, { ...hiddenFields(review.text), go: 'draft' });
  t.equal(full.status, 409);
  t.match(full.text, /1000 mandates that are not over, which is the most\. Revoke some first/);
});

t.test('the picker offers what gateways have seen, and what is ticked is in the scope', async (t) => {
  const fixture = await consoleFixture(t);
  const [{ browser, accountId }, cli] = [await fixture.person(), await fixture.signUp()];
  await fixture.sql`update sessions set account_id = ${accountId} where account_id = ${cli.accountId}`;
  await fixture.sql`update token_routes set account_id = ${accountId} where account_id = ${cli.accountId}`;
  const mandate = { scope: ['payments.*'], amount_limit_per_action: 1, amount_limit_per_month: 1 };
  const made = await fixture.send('POST', '/admin/mandates', cli.token, { ...mandate, activate: true });
  const mandateId = (made.body as { mandate_id: string }).mandate_id;
  const gateway = { mandate_id: mandateId, target_url: 'http://127.0.0.1:9', name: 'Shop <i>' };
  const { instance_id: id } = (await fixture.send('POST', '/admin/gateways', cli.token, gateway)).body as {
    instance_id: string;
  };
  const tools = [
    ['http.post:/refunds', 'mapped', { action_type: 'payments.refund' }],
    ['http.post:/orders', 'unmapped', null],
    ['http.delete:/all', 'blocked', null],
  ] as const;
  for (const [at, [pattern, state, mapping]] of tools.entries()) {
    await fixture.sql`
      insert into tools (account_id, instance_id, key, tool_id, pattern, state, mapping, created_at, changed_at)
      values (${accountId}, ${id}, ${pattern}, ${`tol_01h455vb4pex5vsknk084sn02${at}`}, ${pattern}, ${state},
        ${mapping === null ? null : JSON.stringify(mapping)}::text::jsonb, db_clock(), db_clock())`;
  }
  const page = await walk(browser, [AGENT]);
  t.match(page.text, /name="pick\[payments\.refund\]"/);
  t.match(page.text, /Shop &lt;i&gt;/);
  t.match(page.text, /would stand for http\.post:\/orders/);
  t.notMatch(page.text, /http\.delete:\/all/);
  const picked = { step: 'actions', go: 'next', 'pick[payments.refund]': 'on', more: 'orders.*' };
  const limits = await browser.post(NEW, { ...hiddenFields(page.text), ...picked });
  t.equal(hiddenFields(limits.text)['scope'], 'orders.*\npayments.refund');
  const back = await browser.post(NEW, { ...hiddenFields(limits.text), ...LIMITS, go: 'back' });
  t.match(back.text, /name="pick\[payments\.refund\]" value="on" checked/);
});

t.test('a form that skips steps or names another wording saves nothing', async (t) => {
  const { person_, sql } = await start(t);
  const { browser } = person_;
  const review = await walk(browser, REVIEWED);
  const fields = hiddenFields(review.text);
  const raised = await browser.post(NEW, { ...fields, per_month: '999999', go: 'activate' });
  t.equal(raised.status, 409, 'other terms than those that were read');
  const { scope: _, ...without } = fields;
  t.equal((await browser.post(NEW, { ...without, go: 'activate' })).status, 422);
  t.equal((await browser.post(NEW, { step: 'review', go: 'activate' })).status, 422);
  t.same(await sql`select from mandates`, []);
});

t.test('activating asks for a fresh second factor where the last one is old', async (t) => {
  const fixture = await consoleFixture(t);
  const { browser, secret } = await fixture.person();
  const review = await walk(browser, REVIEWED);
  await fixture.advance(600);
  const refused = await browser.post(NEW, { ...hiddenFields(review.text), go: 'activate' });
  t.equal(refused.status, 422);
  t.match(refused.text, /name="factor_code"/);
  const code = await fixture.codeOf(secret);
  const done = await browser.post(NEW, { ...hiddenFields(refused.text), go: 'activate', factor_code: code });
  t.equal(done.status, 303);
  t.same(await fixture.sql`select status from mandates`, [{ status: 'active' }]);
});
