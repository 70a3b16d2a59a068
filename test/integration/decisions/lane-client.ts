import { hash } from 'node:crypto';
import { type SeededAccount, type SeededLimits, seedAccounts } from '../../../bench/seed.ts';
import { connect, type Sql } from '../../../control-plane/db/client.ts';
import type { DecisionMetrics, FactsSource } from '../../../control-plane/decisions/account-facts.ts';
import type { VerificationMeans } from '../../../control-plane/decisions/ask.ts';
import type { BatchDependencies } from '../../../control-plane/decisions/batch.ts';
import { Lanes } from '../../../control-plane/decisions/lanes.ts';
import { type OpenCredential, VersionCache } from '../../../control-plane/decisions/versions.ts';
import { TokenBuckets } from '../../../control-plane/rate-limit/buckets.ts';
import type { Buckets } from '../../../control-plane/rate-limit/operations.ts';
import { entryHash, type StoredEntry } from '../../../core/evidence.ts';
import { appendLeaf } from '../../../core/merkle.ts';
import { edgeHashes, type RightEdge, TILE_HEIGHT } from '../../../core/merkle-tree.ts';
import { secretHash, secretTokenOf } from '../../../core/secret-token.ts';
import type { GatewayAnswer, GatewayAsk, GatewayOutcome } from '../../../core/wire.ts';
import { createDatabase } from '../../database.ts';

const SILENT: Omit<DecisionMetrics, 'facts'> = {
  decision() {},
  outcome() {},
  batch() {},
  laneDepth() {},
  evidence() {},
  rateLimited() {},
};

/** A control plane's lanes on a fresh database, and one seeded account. */
export interface LaneFixture {
  readonly sql: Sql;
  readonly lanes: Lanes;
  readonly account: SeededAccount;
  readonly errors: unknown[];
  /** Where each batch had its facts from, and those that turned out to be old. */
  readonly sources: FactsSource[];
  readonly databaseUrl: string;
  moreAccounts(count: number, limits?: SeededLimits): Promise<SeededAccount[]>;
  moreLanes(options?: {
    lanes?: number;
    batchMax?: number;
    openCredential?: OpenCredential;
    buckets?: Buckets;
    sighted?: BatchDependencies['sighted'];
  }): Lanes;
}

type TestContext = Parameters<typeof createDatabase>[0];

/** Means of verifications that need no keys. */
export const VERIFICATIONS: VerificationMeans = {
  consumptionToken: (receiptId) => secretTokenOf('ctk', hash('sha256', `token of ${receiptId}`, 'buffer')),
  signMat: (facts) => JSON.stringify(facts),
  sandboxAccountId: null,
};

/** Makes the fixture; the lanes run as the application's role, the seeding as the owner's. */
export async function laneFixture(t: TestContext, limits: SeededLimits = {}): Promise<LaneFixture> {
  const database = await createDatabase(t);
  const sql = connect(database.ownerUrl, { applicationName: 'test', max: 2 });
  t.teardown(() => sql.end());
  const [account] = await seedAccounts(sql, 1, 'http://127.0.0.1:9', limits);
  const errors: unknown[] = [];
  const sources: FactsSource[] = [];
  const moreLanes: LaneFixture['moreLanes'] = (options = {}) => {
    const lanes = new Lanes({
      databaseUrl: database.appUrl,
      versions: new VersionCache(options.openCredential ?? (() => 'secret')),
      buckets: options.buckets ?? new TokenBuckets(),
      verifications: VERIFICATIONS,
      metrics: { ...SILENT, facts: (source) => sources.push(source) },
      logError: (error) => errors.push(error),
      ...(options.sighted === undefined ? {} : { sighted: options.sighted }),
      ...(options.lanes === undefined ? {} : { lanes: options.lanes }),
      ...(options.batchMax === undefined ? {} : { batchMax: options.batchMax }),
    });
    t.teardown(() => lanes.close());
    return lanes;
  };
  const moreAccounts: LaneFixture['moreAccounts'] = (count, more = {}) =>
    seedAccounts(sql, count, 'http://127.0.0.1:9', more);
  return {
    sql,
    lanes: moreLanes(),
    moreAccounts,
    account: account!,
    errors,
    sources,
    databaseUrl: database.appUrl,
    moreLanes,
  };
}

/** What a test says about a request; the rest is a readable POST /payments of 1.00 EUR. */
export interface AskOptions {
  readonly amount?: number;
  readonly currency?: string;
  readonly counterparty?: string | null;
  readonly name?: string;
  readonly body?: string;
  readonly key?: string;
  readonly escalationToken?: string;
  readonly unreadable?: string;
  readonly toolVersion?: number | null;
  readonly bindable?: boolean;
  readonly budgetMs?: number;
  readonly tokenHash?: string;
}

/** The ask that a proxy would send for such a request. */
export function askFor(account: SeededAccount, options: AskOptions = {}): GatewayAsk {
  const name = options.name ?? 'http.post:/payments';
  const body = options.body ?? `{"amount":${options.amount ?? 100}}`;
  const version = options.toolVersion === undefined ? 1 : options.toolVersion;
  return {
    path: 'gateway',
    token_hash: options.tokenHash ?? account.tokenHash,
    address: '127.0.0.1',
    name,
    tool: version === null ? null : { id: account.toolId, version },
    reading:
      options.unreadable === undefined
        ? {
            ok: true,
            amount_minor: options.amount ?? 100,
            currency: options.currency ?? 'EUR',
            counterparty: options.counterparty === undefined ? 'acme' : options.counterparty,
          }
        : { ok: false, field: 'amount', message: options.unreadable },
    request: { method: 'POST', path: name.slice(name.indexOf(':') + 1), query: '', body_sha256: secretHash(body) },
    bindable: options.bindable ?? true,
    idempotency_key_hash: options.key === undefined ? null : secretHash(options.key),
    escalation_token_hash: options.escalationToken === undefined ? null : secretHash(options.escalationToken),
    config_version: 0,
    budget_ms: options.budgetMs ?? 10_000,
  };
}

/** Asks and waits for the answer. */
export function ask(lanes: Lanes, account: SeededAccount, options: AskOptions = {}): Promise<GatewayAnswer> {
  const message = askFor(account, options);
  const { accountId, instanceId } = account;
  const deadlineMs = performance.now() + message.budget_ms;
  return new Promise((answer) => {
    lanes.submit({ kind: 'ask', accountId, instanceId, ask: message, deadlineMs, answer });
  });
}

/** Tells an outcome and waits until it is written (true) or not. */
export function tell(
  lanes: Lanes,
  account: SeededAccount,
  receiptId: string,
  outcome: Partial<GatewayOutcome> & Pick<GatewayOutcome, 'outcome'>,
): Promise<boolean> {
  const message: GatewayOutcome = {
    account_id: account.accountId,
    receipt_id: receiptId,
    cause: 'answered',
    target_status: 200,
    answer: null,
    ...outcome,
  };
  return new Promise((answer) => {
    lanes.submit({ kind: 'outcome', accountId: account.accountId, outcome: message, answer });
  });
}

/** The receipt of an allow; throws on any other answer. */
export function allowed(answer: GatewayAnswer): string {
  if (answer.answer === 'allow') return answer.receipt_id;
  throw new Error(`expected an allow: ${JSON.stringify(answer)}`);
}

/** What the mandate's months hold. */
export async function monthOf(sql: Sql, account: SeededAccount): Promise<{ reserved: number; booked: number }> {
  const rows = await sql<{ reserved: number; booked: number }[]>`
    select coalesce(sum(reserved), 0)::bigint as reserved, coalesce(sum(booked), 0)::bigint as booked
    from mandate_months where account_id = ${account.accountId} and mandate_id = ${account.mandateId}`;
  return { reserved: rows[0]!.reserved, booked: rows[0]!.booked };
}

/** The account's chain; throws where an entry's hash is not its hash. */
export async function chainOf(sql: Sql, account: SeededAccount): Promise<StoredEntry[]> {
  const rows = await sql<StoredEntry[]>`
    select account_id as account, seq, id, kind, at, encode(prev, 'hex') as prev, encode(hash, 'hex') as hash, body
    from evidence where account_id = ${account.accountId} order by seq`;
  for (const row of rows) if (entryHash(row) !== row.hash) throw new Error(`entry ${row.seq} has another hash`);
  await assertTree(sql, account, rows);
  return [...rows];
}

/** Throws unless the stored tree is exactly that of the entries: the edge, and every complete subtree of 256^n. */
async function assertTree(sql: Sql, { accountId }: SeededAccount, entries: readonly StoredEntry[]): Promise<void> {
  const wanted: string[] = [];
  let edge: RightEdge | null = null;
  for (const [size, { hash: leafHash }] of entries.entries()) {
    edge = appendLeaf(edge, size, leafHash, ({ level, index }, hash) => {
      if (level % TILE_HEIGHT === 0) wanted.push(`${level / TILE_HEIGHT} ${index} ${hash}`);
    });
  }
  const [head] = await sql<{ edge: string }[]>`
    select encode(edge, 'hex') as edge from account_heads where account_id = ${accountId}`;
  if (head?.edge !== edgeHashes(edge).join('')) throw new Error('the edge is not that of the entries');
  const rows = await sql<{ text: string }[]>`
    select level || ' ' || index || ' ' || encode(hash, 'hex') as text from evidence_subtrees
    where account_id = ${accountId}`;
  const found = rows.map(({ text }) => text);
  if (found.sort().join() !== wanted.sort().join()) throw new Error('the subtrees are not those of the entries');
}
