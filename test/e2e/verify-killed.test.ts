import t from 'tap';
import type { StartedProcess } from '../../bench/processes.ts';
import { type SeededAccount, type SeededKey, seedKey } from '../../bench/seed.ts';
import { contextDigest } from '../../core/action.ts';
import { formatDidKey } from '../../core/did-key.ts';
import { newSeed, SigningKey } from '../../core/ed25519.ts';
import { createPresentation, type PresentationDocument } from '../../core/presentation.ts';
import type { TypeId } from '../../core/type-id.ts';
import { type Cluster, ended, startCluster } from './cluster.ts';

const CLIENTS = 32;
const ROOM = 100;
const ACTION = { type: 'payments.create', amount: { value: 1, currency: 'EUR' }, counterparty: 'acme' };
const CTX = contextDigest({ type: ACTION.type, amount_minor: 100, currency: 'EUR', counterparty: 'acme' });

interface Answer {
  readonly status: number;
  readonly json: {
    readonly decision?: string;
    readonly reasons?: readonly string[];
    readonly consumption_token?: string;
  };
}

/** An account whose agent signs for itself, with keys that are spread over the control planes. */
interface Party {
  readonly account: SeededAccount;
  readonly agent: SigningKey;
  readonly keys: readonly SeededKey[];
}

async function seedParty(cluster: Cluster): Promise<Party> {
  const agent = new SigningKey(newSeed());
  const limits = { per_action: 100, per_month: ROOM * 100, agent_did: formatDidKey(agent.publicKey) };
  const [account] = await cluster.seed(limits, 1);
  const scopes = ['verify', 'consumptions:write'];
  const keys = await Promise.all(Array.from({ length: 8 }, () => seedKey(cluster.sql, account!, scopes)));
  return { account: account!, agent, keys };
}

function present({ account, agent }: Party): PresentationDocument {
  const issued_at_ms = Date.now();
  return createPresentation(
    {
      mandate_id: account.mandateId as TypeId<'mdt'>,
      verifier: account.accountId as TypeId<'acc'>,
      ctx: CTX,
      issued_at_ms,
      expires_at_ms: issued_at_ms + 300_000,
    },
    agent,
  );
}

/** Status 0: the connection broke, so what became of it is not known to the caller. */
async function post(cluster: Cluster, path: string, { apiKey }: SeededKey, body: unknown): Promise<Answer> {
  const headers = { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' };
  try {
    const response = await fetch(`${cluster.proxyUrl}${path}`, { method: 'POST', headers, body: JSON.stringify(body) });
    return { status: response.status, json: (await response.json()) as Answer['json'] };
  } catch {
    return { status: 0, json: {} };
  }
}

/** Kills one process for good and starts another in its place. */
const KILLS: readonly [who: string, kill: (cluster: Cluster) => Promise<void>][] = [
  ['a control plane', (cluster) => killControlPlane(cluster, 0)],
  ['the other control plane', (cluster) => killControlPlane(cluster, 1)],
  ['the proxy with its workers', (cluster) => cluster.killProxy()],
];

async function killControlPlane(cluster: Cluster, victim: number): Promise<void> {
  await ended(cluster.controlPlanes[victim]!, 'SIGKILL');
  (cluster.controlPlanes as StartedProcess[])[victim] = await cluster.startControlPlane(victim);
}

t.test('a process killed in the middle lets no presentation be used twice and loses no budget', async (t) => {
  const cluster = await startCluster(t);
  for (const [who, kill] of KILLS) {
    const party = await seedParty(cluster);
    const presentations = Array.from({ length: 3 * ROOM }, () => present(party));
    const allowed = new Map<number, string>();
    let next = 0;
    const client = async (): Promise<void> => {
      while (next < presentations.length) {
        const number = next++;
        const key = party.keys[number % party.keys.length]!;
        const asked = { presentation: presentations[number], action: ACTION };
        const { json } = await post(cluster, '/api/v1/verify', key, asked);
        if (json.decision === 'allow') allowed.set(number, json.consumption_token ?? '');
      }
    };
    const verifying = Promise.all(Array.from({ length: CLIENTS }, client));
    while (allowed.size < ROOM / 5) await new Promise((resolve) => setImmediate(resolve));
    await kill(cluster);
    await verifying;

    const { accountId, mandateId } = party.account;
    const [books] = await cluster.sql<{ held: number; used: number }[]>`
      select (select count(*) from authorisations where account_id = ${accountId})::integer as held,
        (select (reserved + booked)::bigint from mandate_months where mandate_id = ${mandateId}) as used`;
    t.ok(allowed.size >= ROOM / 5 && allowed.size <= ROOM, `${who}: ${allowed.size} allows were answered`);
    t.ok(books!.held >= allowed.size && books!.held <= ROOM, `and ${books!.held} are in the books`);
    t.equal(books!.used, books!.held * 100, 'the month counts exactly what is in the books');
    t.equal(new Set(allowed.values()).size, allowed.size, 'no consumption token was given twice');

    const again = await Promise.all(
      [...allowed.keys()].map((number) =>
        post(cluster, '/api/v1/verify', party.keys[number % party.keys.length]!, {
          presentation: presentations[number],
          action: ACTION,
        }),
      ),
    );
    t.same(new Set(again.map(({ json }) => json.reasons?.[0])), new Set(['MD-105']), 'every one of them is spent');
  }
});

t.test('a consumption that is repeated because a control plane died books once', async (t) => {
  const cluster = await startCluster(t);
  const party = await seedParty(cluster);
  const tokens: string[] = [];
  for (let i = 0; i < 40; i++) {
    const key = party.keys[i % party.keys.length]!;
    const { json } = await post(cluster, '/api/v1/verify', key, { presentation: present(party), action: ACTION });
    tokens.push(json.consumption_token ?? '');
  }
  const consume = async (token: string): Promise<Answer> => {
    for (let attempt = 0; attempt < 100; attempt++) {
      const asked = { consumption_token: token, final_amount: 0.5 };
      const answer = await post(cluster, '/api/v1/consumptions', party.keys[0]!, asked);
      if (answer.status === 200) return answer;
      await new Promise((resolve) => setImmediate(resolve));
    }
    return { status: 0, json: {} };
  };
  // The proxies' pass-through goes to the first control plane: it is killed under the bookings and comes back.
  const booking = Promise.all(tokens.map(consume));
  await ended(cluster.controlPlanes[0]!, 'SIGKILL');
  await booking;
  const [month] = await cluster.sql<{ reserved: number; booked: number }[]>`
    select reserved, booked from mandate_months where mandate_id = ${party.account.mandateId}`;
  const [books] = await cluster.sql<{ booked: number; open: number }[]>`
    select coalesce(sum(booked), 0)::bigint as booked, (count(*) filter (where state = 'reserved'))::integer as open
    from authorisations where account_id = ${party.account.accountId}`;
  t.same({ ...month }, { reserved: books!.open * 100, booked: books!.booked });
  t.equal(books!.booked, (tokens.length - books!.open) * 50);
});
