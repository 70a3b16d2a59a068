import { LRUCache } from 'lru-cache';
import { candidateKeys, type Shape } from '../../core/tool-name.ts';
import { type AccountFacts, monthKey, toolKey } from './account-facts.ts';
import type { BatchFacts } from './fact-rows.ts';
import type { FactsRead } from './facts.ts';
import type { HotItem, VerifyItem } from './items.ts';
import type { VersionCache } from './versions.ts';

/** Instances, tools and reservations that a lane remembers, over all its accounts: some megabytes. */
const CARRIED_MAX = 20_000;
/** Spent nonces that are remembered of an account: a repeat among them costs no second look. */
const NONCES_MAX = 4_096;
/** After carried facts turned out to be old, so many batches read theirs: another control plane has the account. */
const CONTENDED_BATCHES = 16;
/** How long the database's time is reckoned from the last answer that told it, in milliseconds: clocks drift. */
const CLOCK_MAX_AGE_MS = 10_000;

/**
 * The facts of accounts as a lane's last batches left them, for the next batch to decide on without reading them again.
 *
 * Never trusted: what is decided on them is written only if the database finds, under the head's lock, the head and
 * revision that they belong to, which every change of an account moves; else nothing is written and the batch reads
 * its facts. Hence as live as a read, in one round trip (docs/design/0008-facts-carried-over.md).
 */
export class CarriedFacts {
  readonly #accounts = new LRUCache<string, AccountFacts>({
    maxSize: CARRIED_MAX,
    sizeCalculation: ({ instances, tools, reservations, mandates, keys, spentNonces }) =>
      1 + instances.size + tools.size + reservations.size + mandates.size + keys.size + spentNonces.size,
  });
  readonly #contended = new LRUCache<string, number>({ max: 1_000 });
  #clock: { readonly databaseMs: number; readonly atMs: number } | null = null;

  /** The facts of `items`, with the time set, when all are at hand; they are given away and come back by `keep`. */
  take(items: readonly HotItem[], versions: VersionCache): BatchFacts | null {
    const nowMs = this.#nowMs();
    if (nowMs === null) return null;
    const batch: BatchFacts = new Map();
    for (const item of items) {
      const facts = batch.get(item.accountId) ?? this.#find(item.accountId);
      if (facts === undefined || !suffices(facts, item, nowMs, versions)) return null;
      batch.set(item.accountId, facts);
    }
    for (const { head } of batch.values()) {
      this.#accounts.delete(head.accountId);
      head.before = head.hash;
      head.nowMs = Math.max(head.nowMs, nowMs);
      head.now = new Date(head.nowMs).toISOString();
    }
    return batch;
  }

  /** Adds what is remembered to facts that were just read, where it is still so; the rest is forgotten. */
  extend({ batch, nowMs }: FactsRead): BatchFacts {
    this.tick(nowMs);
    for (const [accountId, read] of batch) {
      const known = this.#accounts.get(accountId);
      this.#accounts.delete(accountId);
      if (known?.head.hash === read.head.hash && known.head.revision === read.head.revision) merge(read, known);
    }
    return batch;
  }

  /** Remembers facts that were committed as they are. */
  keep(batch: BatchFacts): void {
    for (const [accountId, facts] of batch) {
      // Escalations end by the clock; answers and grants are looked up for each request.
      if (facts.escalations.length > 0) continue;
      facts.answers.clear();
      facts.grants.clear();
      facts.authorisations.clear();
      if (facts.spentNonces.size > NONCES_MAX) facts.spentNonces.clear();
      this.#accounts.set(accountId, facts);
    }
  }

  /** Forgets an account whose facts somebody is about to change. */
  drop(accountId: string): void {
    this.#accounts.delete(accountId);
  }

  /** The facts of these accounts were no longer so: for a while they are read. */
  contended(batch: BatchFacts): void {
    for (const accountId of batch.keys()) this.#contended.set(accountId, CONTENDED_BATCHES);
  }

  /** Learns the database's time (milliseconds) from an answer that just came. */
  tick(databaseMs: number): void {
    this.#clock = { databaseMs, atMs: performance.now() };
  }

  #find(accountId: string): AccountFacts | undefined {
    const left = this.#contended.get(accountId);
    if (left === undefined) return this.#accounts.get(accountId);
    if (left > 1) this.#contended.set(accountId, left - 1);
    else this.#contended.delete(accountId);
    return undefined;
  }

  /** The database's time at the earliest: what went by on the way of the answer is left out. */
  #nowMs(): number | null {
    if (this.#clock === null) return null;
    const passedMs = performance.now() - this.#clock.atMs;
    return passedMs > CLOCK_MAX_AGE_MS ? null : Math.floor(this.#clock.databaseMs + passedMs);
  }
}

function suffices(facts: AccountFacts, item: HotItem, nowMs: number, versions: VersionCache): boolean {
  if (item.kind === 'outcome') return facts.reservations.has(item.outcome.receipt_id);
  if (item.kind === 'booking') return false;
  const { idempotency_key_hash: key, escalation_token_hash: token } = item.ask;
  if (key !== null || token !== null) return false;
  if (item.kind === 'verify') return sufficesToVerify(facts, item, nowMs, versions);
  const instance = facts.instances.get(item.instanceId);
  if (instance === undefined || nowMs >= instance.mandate.monthSureUntilMs || !versions.hasInstance(instance))
    return false;
  for (const key of candidateKeys(item.ask.name, instance.shapes as readonly Shape[])) {
    const tool = facts.tools.get(toolKey(instance.instanceId, key));
    if (tool === undefined || (tool !== null && !versions.hasTool(tool))) return false;
  }
  return true;
}

/** A nonce that is not known to be spent is taken for unspent: the database refuses the batch where it is not so. */
function sufficesToVerify(facts: AccountFacts, item: VerifyItem, nowMs: number, versions: VersionCache): boolean {
  // Another account's key may be revoked without this account's revision moving.
  if (item.key.accountId !== item.accountId || !facts.keys.has(item.key.keyId)) return false;
  const { presentation } = item.ask;
  if (presentation === null) return true;
  const mandate = facts.mandates.get(presentation.mandate_id);
  if (mandate === undefined) return false;
  return mandate === null || (nowMs < mandate.monthSureUntilMs && versions.hasMandate(mandate));
}

/** Both are of the same head: what they share is equal, and instances refer to one mandate each. */
function merge(read: AccountFacts, known: AccountFacts): void {
  for (const [key, tool] of known.tools) if (!read.tools.has(key)) read.tools.set(key, tool);
  for (const [key, one] of known.reservations) if (!read.reservations.has(key)) read.reservations.set(key, one);
  for (const [key, mandate] of known.mandates) {
    if (read.mandates.has(key)) continue;
    // A booking reads a month without its mandate: what is counted on one must be seen on the other.
    const month = mandate === null ? undefined : read.months.get(monthKey(key, mandate.month.month));
    read.mandates.set(key, mandate === null || month === undefined ? mandate : { ...mandate, month });
  }
  for (const [key, month] of known.months) if (!read.months.has(key)) read.months.set(key, month);
  for (const [keyId, key] of known.keys) if (!read.keys.has(keyId)) read.keys.set(keyId, key);
  for (const nonce of known.spentNonces) read.spentNonces.add(nonce);
  for (const [instanceId, instance] of known.instances) {
    if (read.instances.has(instanceId)) continue;
    const mandate = read.mandates.get(instance.mandate.mandateId) ?? instance.mandate;
    read.instances.set(instanceId, { ...instance, mandate });
  }
}
