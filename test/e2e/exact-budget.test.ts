import t from 'tap';
import type { SeededAccount } from '../../bench/seed.ts';
import { chainProblem, type StoredEntry } from '../../core/evidence.ts';
import { type Cluster, ended, startCluster } from './cluster.ts';

const CLIENTS = 64;
const ROOM = 100;
const RUNS = 20;

/** 64 clients pay 1.00 each until `total` requests were sent; returns how many were answered with each status. */
async function hammer(
  cluster: Cluster,
  instances: readonly SeededAccount[],
  run: string,
  total: number,
): Promise<Map<number, number>> {
  const statuses = new Map<number, number>();
  let next = 0;
  const client = async (): Promise<void> => {
    while (next < total) {
      const number = next++;
      const { token } = instances[number % instances.length]!;
      const status = await cluster.pay(token, `${run}-${number}`);
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
    }
  };
  await Promise.all(Array.from({ length: CLIENTS }, client));
  return statuses;
}

/** What the target's own ledger shows of a run. */
function executed(cluster: Cluster, run: string): { count: number; twice: number } {
  const counts = [...cluster.ledger].filter(([reference]) => reference.startsWith(`${run}-`)).map(([, times]) => times);
  return { count: counts.length, twice: counts.filter((times) => times > 1).length };
}

async function monthOf(cluster: Cluster, { mandateId }: SeededAccount): Promise<number> {
  const rows = await cluster.sql<{ used: number }[]>`
    select (reserved + booked)::bigint as used from mandate_months where mandate_id = ${mandateId}`;
  return rows[0]?.used ?? 0;
}

async function chainIsIntact(cluster: Cluster, { accountId }: SeededAccount): Promise<string | null> {
  const rows = await cluster.sql<StoredEntry[]>`
    select account_id as account, seq, id, kind, at, encode(prev, 'hex') as prev, encode(hash, 'hex') as hash, body
    from evidence where account_id = ${accountId} order by seq`;
  let head = { size: 0, hash: '0'.repeat(64), atMs: 0 };
  for (const entry of rows) {
    const problem = chainProblem(head, entry);
    if (problem !== null) return `${entry.seq}: ${problem}`;
    head = { size: entry.seq + 1, hash: entry.hash, atMs: Date.parse(entry.at) };
  }
  return rows.length === 0 ? 'no entries' : null;
}

t.test(`${CLIENTS} clients, 2 workers, 2 control planes: room for ${ROOM} means ${ROOM}, every time`, async (t) => {
  const cluster = await startCluster(t);
  for (let run = 0; run < RUNS; run++) {
    const instances = await cluster.seed({ per_action: 100, per_month: ROOM * 100 }, 8);
    const statuses = await hammer(cluster, instances, `run${run}`, 3 * ROOM);
    t.same(executed(cluster, `run${run}`), { count: ROOM, twice: 0 }, `run ${run}: the target's ledger`);
    t.equal(statuses.get(200), ROOM, `run ${run}: answers`);
    t.equal(statuses.get(403), 2 * ROOM);
    t.equal(await monthOf(cluster, instances[0]!), ROOM * 100);
    t.equal(await chainIsIntact(cluster, instances[0]!), null);
  }
});

t.test('a control plane killed in the middle costs no budget and executes nothing twice', async (t) => {
  const cluster = await startCluster(t);
  for (let run = 0; run < 3; run++) {
    const instances = await cluster.seed({ per_action: 100, per_month: ROOM * 100 }, 8);
    const hammering = hammer(cluster, instances, `kill${run}`, 4 * ROOM);
    const victim = run % 2;
    // Killed once decisions flow, so that some are in the middle of it.
    while (executed(cluster, `kill${run}`).count < ROOM / 4) await new Promise((resolve) => setImmediate(resolve));
    await ended(cluster.controlPlanes[victim] as never, 'SIGKILL');
    await hammering;
    const { count, twice } = executed(cluster, `kill${run}`);
    const used = await monthOf(cluster, instances[0]!);
    t.ok(count <= ROOM, `run ${run}: ${count} executed, never more than ${ROOM}`);
    t.ok(count >= ROOM / 4, 'and the other control plane went on');
    t.equal(twice, 0);
    t.ok(used >= count * 100, `reserved and booked (${used}) account for every forward (${count})`);
    t.ok(used <= ROOM * 100);
    t.equal(await chainIsIntact(cluster, instances[0]!), null);
    (cluster.controlPlanes as unknown as unknown[])[victim] = await cluster.startControlPlane(victim);
  }
});
