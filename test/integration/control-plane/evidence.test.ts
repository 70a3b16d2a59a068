import t from 'tap';
import { CHAIN_START, type ChainHead, chainProblem, type StoredEntry } from '../../../core/evidence.ts';
import { ask, chainOf } from '../decisions/lane-client.ts';
import { escalationFixture, send } from './escalation-fixture.ts';

interface Page {
  readonly head: { readonly size: number; readonly hash: string; readonly at: string };
  readonly entries: readonly StoredEntry[];
  readonly next_seq: number | null;
}

t.test('the chain is read page by page, and a stranger can recompute it from the answers', async (t) => {
  const { plane, session, account } = await escalationFixture(t);
  for (let i = 0; i < 5; i++) await ask(plane.lanes, account, { amount: 100 });
  let chain: ChainHead = { size: 0, hash: CHAIN_START, atMs: 0 };
  let next: number | null = 0;
  let head: Page['head'] | null = null;
  const sizes: number[] = [];
  while (next !== null) {
    const answer = await send(plane, 'GET', `/admin/evidence?from_seq=${next}&limit=2`, session);
    const page = answer.body as unknown as Page;
    sizes.push(page.entries.length);
    for (const entry of page.entries) {
      t.equal(chainProblem(chain, entry), null);
      t.same(Object.keys(entry).sort(), ['account', 'at', 'body', 'hash', 'id', 'kind', 'prev', 'seq']);
      chain = { size: chain.size + 1, hash: entry.hash, atMs: Date.parse(entry.at) };
    }
    [next, head] = [page.next_seq, page.head];
  }
  t.same(sizes, [2, 2, 1]);
  t.same(head, { size: 5, hash: chain.hash, at: new Date(chain.atMs).toISOString() });
});

t.test('a kind is found among others, and what cannot be meant is refused', async (t) => {
  const { plane, session, account, escalate, sql } = await escalationFixture(t);
  await ask(plane.lanes, account, { amount: 100 });
  const id = await escalate();
  await send(plane, 'POST', `/admin/escalations/${id}/approve`, session, {});
  const kind = async (name: string): Promise<Page> =>
    (await send(plane, 'GET', `/admin/evidence?kind=${name}`, session)).body as unknown as Page;
  t.same(
    (await kind('decision')).entries.map((entry) => entry.seq),
    [0, 1],
  );
  t.same((await kind('escalation.approved')).entries, (await chainOf(sql, account)).slice(2));
  t.same((await kind('mandate.revoked')).entries, []);
  for (const query of ['kind=anything', 'limit=0', 'limit=1001', 'from_seq=-1', 'from_seq=01', 'to=1']) {
    t.equal((await send(plane, 'GET', `/admin/evidence?${query}`, session)).status, 422, query);
  }
  t.match((await send(plane, 'GET', '/admin/evidence?from_seq=99', session)).body, { entries: [], next_seq: null });
});

t.test("an account reads nothing but its own chain, and an agent's token none", async (t) => {
  const fixture = await escalationFixture(t);
  const { plane, account } = fixture;
  await ask(plane.lanes, account, { amount: 100 });
  const { session } = await fixture.stranger();
  t.match((await send(plane, 'GET', '/admin/evidence', session)).body, {
    head: { size: 0, hash: CHAIN_START },
    entries: [],
    next_seq: null,
  });
  t.equal((await send(plane, 'GET', '/admin/evidence', account.token)).status, 401);
});
