import t from 'tap';
import type { Sql } from '../../../control-plane/db/client.ts';
import { readStop } from '../../../control-plane/mandates/stop.ts';
import { LIVING_MANDATES_MAX } from '../../../core/limits.ts';
import { mandateFixture } from '../console/mandate-fixture.ts';
import { type AdminAnswer, at, textAt } from './admin-fixture.ts';
import { MANDATE, nounFixture, problemOf } from './noun-fixture.ts';

/** Counterparties as large as they may be together. */
const LONG = Array.from({ length: 170 }, (_, n) => `${n}`.padStart(250, 'x'));

/** Copies the account's mandate `count` times, as rows only. */
async function copies(sql: Sql, accountId: string, count: number): Promise<void> {
  await sql`
    insert into mandates (account_id, mandate_id, name, status, scope, currency, per_action, per_month, counterparties,
      digest, created_at, changed_at)
    select account_id, 'mdt_' || lpad(n::text, 26, '0'), 'Copy ' || lpad(n::text, 4, '0'), status, scope, currency,
      per_action, per_month, counterparties, digest, created_at, changed_at
    from (select * from mandates where account_id = ${accountId} limit 1) m
    cross join generate_series(1, ${count}::integer) n`;
}

const idsOf = (answer: AdminAnswer, name: string, id: string) =>
  (at(answer, name) as Record<string, unknown>[]).map((one) => one[id]);

t.test('a list of mandates comes in pages, with each of them once and none of their counterparties', async (t) => {
  const { as, sql, person, mandate } = await nounFixture(t);
  await mandate({ counterparties: LONG });
  await copies(sql, person.accountId, 120);
  const seen: unknown[] = [];
  const sizes: number[] = [];
  for (let next: unknown = null, page = 0; page === 0 || next !== null; page++) {
    const answer = await as('GET', `/admin/mandates${next === null ? '' : `?after=${String(next)}`}`);
    t.notMatch(answer.text, 'xxxx');
    t.equal(at(answer, 'mandates.0.counterparty_count'), LONG.length);
    const ids = idsOf(answer, 'mandates', 'mandate_id');
    seen.push(...ids);
    sizes.push(ids.length);
    next = at(answer, 'next');
  }
  t.same(sizes, [50, 50, 21]);
  t.equal(new Set(seen).size, 121);
  t.same(problemOf(await as('GET', '/admin/mandates?after=1')), [422, 'invalid']);
  t.same(problemOf(await as('GET', '/admin/mandates?before=1')), [422, 'invalid']);
});

t.test('an account has so many mandates that are not over, and is told how to make room', async (t) => {
  const { as, sql, person, mandate } = await nounFixture(t);
  const first = await mandate();
  await copies(sql, person.accountId, LIVING_MANDATES_MAX - 1);
  const refused = await as('POST', '/admin/mandates', MANDATE);
  t.same(problemOf(refused), [409, 'conflict']);
  t.match(textAt(refused, 'detail'), /1000 mandates that are not over; revoke some first/);
  await as('POST', `/admin/mandates/${first}/revoke`, {});
  t.equal((await as('POST', '/admin/mandates', MANDATE)).status, 201, 'what is over does not count');
  const stopped = await as('POST', '/admin/account/stop', {});
  t.equal((at(stopped, 'mandates') as unknown[]).length, LIVING_MANDATES_MAX, 'a stop reaches all of them at once');
});

t.test('versions come in pages too, each with what it changed of the one before', async (t) => {
  const { as, mandate } = await nounFixture(t);
  const path = `/admin/mandates/${await mandate()}`;
  for (let limit = 1; limit <= 30; limit++) await as('POST', `${path}/change`, { amount_limit_per_action: limit });
  const first = await as('GET', `${path}/versions`);
  const second = await as('GET', `${path}/versions?after=${String(at(first, 'next'))}`);
  const versions = [...idsOf(first, 'versions', 'version'), ...idsOf(second, 'versions', 'version')];
  t.same(
    versions,
    Array.from({ length: 31 }, (_, n) => 31 - n),
  );
  t.equal(at(second, 'next'), null);
  t.match(at(first, 'versions.19.changes'), [{ before: 10, after: 11 }], 'across the edge of a page');
  t.same(at(second, 'versions.10.changes'), []);
});

t.test('whether an account is stopped is told of all its mandates, however they are named', async (t) => {
  const { as, sql, deps, person, mandate } = await nounFixture(t);
  await mandate({ name: 'zz' });
  t.equal((await as('POST', '/admin/account/stop', {})).status, 200);
  await sql`update mandates set status = 'active', stopped = false`;
  await copies(sql, person.accountId, 1_200);
  await sql`update mandates set status = 'suspended', stopped = true where name = 'zz'`;
  const { active, stopped } = await readStop(deps.sql, person.accountId);
  t.same(stopped, { count: 1, names: ['zz'] });
  t.equal(active.count, 1_200);
  t.match(active.names, ['Copy 0001', 'Copy 0002']);
  t.equal(active.names.length, 30);
});

t.test(
  'the console shows mandates, gateways and versions by pages, and what a new gateway may stand under',
  async (t) => {
    const { owner, sql, api, mandateId, own } = await mandateFixture(t, { counterparties: LONG });
    await copies(sql, owner.accountId, 60);
    const { browser } = owner;
    const list = await browser.get('/console/mandates');
    t.match(list.text, 'Copy 0060');
    const older = /href="(\/console\/mandates\?after=[^"]+)"/.exec(list.text)?.[1] ?? '';
    const rest = await browser.get(older);
    t.equal(rest.status, 200);
    t.match(rest.text, 'Copy 0001');
    t.notMatch(rest.text, 'Copy 0060');
    t.match((await browser.get('/console/gateways/new')).text, `value="${mandateId}"`);
    for (let n = 0; n < 50; n++) {
      await api('POST', '/admin/gateways', { mandate_id: mandateId, target_url: 'http://127.0.0.1:9', name: `G${n}` });
    }
    const gateways = await browser.get('/console/gateways');
    t.match(gateways.text, 'Travel &lt;i&gt;');
    t.notMatch(gateways.text, 'Shop');
    const last = /href="(\/console\/gateways\?after=[^"]+)"/.exec(gateways.text)?.[1] ?? '';
    t.match((await browser.get(last)).text, 'Shop');
    for (let n = 1; n <= 21; n++)
      await api('POST', `/admin/mandates/${mandateId}/change`, { amount_limit_per_action: n });
    t.match((await browser.get(`${own}/versions?after=3`)).text, /Version 2[\s\S]*Version 1</);
    t.match((await browser.get(`${own}/versions`)).text, 'versions?after=3"');
  },
);
