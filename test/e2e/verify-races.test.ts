import t from 'tap';
import { type SeededAccount, type SeededKey, seedKey } from '../../bench/seed.ts';
import { contextDigest } from '../../core/action.ts';
import { formatDidKey } from '../../core/did-key.ts';
import { newSeed, SigningKey } from '../../core/ed25519.ts';
import { createPresentation, type PresentationDocument } from '../../core/presentation.ts';
import type { TypeId } from '../../core/type-id.ts';
import { type Cluster, startCluster } from './cluster.ts';

const CLIENTS = 64;
/** MANDATE_TEST_ROUNDS says otherwise. */
const ROUNDS = Number(process.env['MANDATE_TEST_ROUNDS'] ?? 10);
const SMALL = action(1);
const LARGE = action(6);

function action(value: number) {
  const fields = { type: 'payments.create', currency: 'EUR', counterparty: 'acme' };
  const ctx = contextDigest({ ...fields, amount_minor: value * 100 });
  return { ctx, body: { type: fields.type, amount: { value, currency: 'EUR' }, counterparty: 'acme' } };
}

interface Party {
  readonly account: SeededAccount;
  readonly agent: SigningKey;
  readonly keys: readonly SeededKey[];
}

interface Answer {
  readonly status: number;
  readonly replayed: boolean;
  readonly json: { readonly [name: string]: unknown };
}

async function seedParty(cluster: Cluster): Promise<Party> {
  const agent = new SigningKey(newSeed());
  const limits = {
    per_action: 1_000,
    per_month: 1_000_000_000,
    escalation_threshold: 500,
    agent_did: formatDidKey(agent.publicKey),
  };
  const [account] = await cluster.seed(limits, 1);
  const scopes = ['verify', 'consumptions:write'];
  // Enough that both control planes are asked: a key's hash picks one.
  const keys = await Promise.all(Array.from({ length: CLIENTS }, () => seedKey(cluster.sql, account!, scopes)));
  return { account: account!, agent, keys };
}

function present({ account, agent }: Party, { ctx }: typeof SMALL): PresentationDocument {
  const issued_at_ms = Date.now();
  const names = { mandate_id: account.mandateId as TypeId<'mdt'>, verifier: account.accountId as TypeId<'acc'> };
  return createPresentation({ ...names, ctx, issued_at_ms, expires_at_ms: issued_at_ms + 300_000 }, agent);
}

/** 64 clients send at once, each with its own key unless all share one; the answers in the clients' order. */
function race(
  cluster: Cluster,
  path: string,
  keys: readonly SeededKey[],
  body: unknown,
  headers: { readonly [name: string]: string } = {},
): Promise<Answer[]> {
  const one = async (client: number): Promise<Answer> => {
    const { apiKey } = keys[client % keys.length]!;
    const response = await fetch(`${cluster.proxyUrl}${path}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json', ...headers },
      body: JSON.stringify(body),
    });
    const replayed = response.headers.get('x-idempotent-replay') === 'true';
    return { status: response.status, replayed, json: (await response.json()) as Answer['json'] };
  };
  return Promise.all(Array.from({ length: CLIENTS }, (_, client) => one(client)));
}

const decisions = (answers: readonly Answer[], decision: string): Answer[] =>
  answers.filter(({ json }) => json['decision'] === decision);

t.test('over HTTP, two proxy workers and two control planes, a race has exactly one winner', async (t) => {
  const cluster = await startCluster(t);
  const party = await seedParty(cluster);
  for (let round = 0; round < ROUNDS; round++) {
    const once = { presentation: present(party, SMALL), action: SMALL.body };
    const presented = await race(cluster, '/api/v1/verify', party.keys, once);
    t.equal(decisions(presented, 'allow').length, 1, 'one presentation is allowed once');
    const losers = decisions(presented, 'deny');
    t.equal(losers.length, CLIENTS - 1);
    t.ok(losers.every(({ json }) => (json['reasons'] as string[])[0] === 'MD-105'));

    const keyed = { presentation: present(party, SMALL), action: SMALL.body };
    const header = { 'idempotency-key': `race-${round}` };
    const repeated = await race(cluster, '/api/v1/verify', [party.keys[0]!], keyed, header);
    t.equal(new Set(repeated.map(({ json }) => JSON.stringify(json))).size, 1, 'one idempotency key has one answer');
    t.equal(repeated.filter(({ replayed }) => !replayed).length, 1, 'which is decided once');
    t.equal(repeated[0]!.json['decision'], 'allow');

    const [first] = await race(cluster, '/api/v1/verify', party.keys, {
      presentation: present(party, LARGE),
      action: LARGE.body,
    });
    const escalation = first!.json['escalation'] as { readonly id: string };
    const person = await cluster.signIn(party.account.accountId);
    t.equal(await person.post(`/admin/escalations/${escalation.id}/approve`), 200);
    const polled = await fetch(`${cluster.proxyUrl}/api/v1/escalations/${escalation.id}`, {
      headers: { authorization: `Bearer ${party.keys[round % CLIENTS]!.apiKey}` },
    });
    const { escalation_token } = (await polled.json()) as { readonly escalation_token: string };
    const granted = { presentation: present(party, LARGE), action: LARGE.body, escalation_token };
    const used = await race(cluster, '/api/v1/verify', party.keys, granted);
    t.equal(decisions(used, 'allow').length, 1, 'one escalation token is used once');

    const consumption_token = decisions(presented, 'allow')[0]!.json['consumption_token'];
    const amounts = await Promise.all(
      [0.4, 0.6].map((final_amount) =>
        race(cluster, '/api/v1/consumptions', party.keys, { consumption_token, final_amount }),
      ),
    );
    const booked = amounts.flat().filter(({ status }) => status === 200);
    t.equal(new Set(booked.map(({ json }) => JSON.stringify(json['booked']))).size, 1, 'one amount is booked');
    t.equal(booked.length, CLIENTS, 'and its repeats have the same answer');
    t.ok(amounts.flat().every(({ status }) => status === 200 || status === 409));
  }
  const { accountId, mandateId } = party.account;
  const [books] = await cluster.sql<{ held: number; used: number; booked: number }[]>`
    select (select count(*) from authorisations where account_id = ${accountId})::integer as held,
      (select (reserved + booked)::bigint from mandate_months where mandate_id = ${mandateId}) as used,
      (select sum(booked)::bigint from authorisations where account_id = ${accountId}) as booked`;
  t.equal(books!.held, 3 * ROUNDS, 'three winners a round, and nothing else is in the books');
  t.equal(books!.used, ROUNDS * (100 + 600) + books!.booked, 'the month counts them exactly');
});
