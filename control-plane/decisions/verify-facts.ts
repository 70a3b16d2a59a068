import { type AccountFacts, type AuthorisationState, type KeyState, monthKey } from './account-facts.ts';
import { Columns } from './columns.ts';
import { addEscalation, addMandate, type BatchFacts, type Json, type Row } from './fact-rows.ts';
import type { HotItem } from './items.ts';

/** What `verify_facts()` answers. */
export interface VerifyFactsRow {
  readonly keys: readonly Row[] | null;
  readonly mandates: readonly Row[] | null;
  readonly escalations: readonly Row[] | null;
  readonly nonces: readonly Row[] | null;
  readonly authorisations: readonly Row[] | null;
  readonly executions: readonly Row[] | null;
}

/** What the verifications and bookings of a batch depend on, as the columns that `verify_facts()` takes. */
export class VerifyColumns {
  readonly #keys = new Columns(2);
  readonly #mandates = new Columns(2);
  readonly #nonces = new Columns(2);
  readonly #tokens = new Columns(2);
  /** Keys belong to their own account, and are asked for by others in the sandbox. */
  readonly #askers = new Columns(2);

  add(item: HotItem): void {
    const { accountId } = item;
    if (item.kind === 'booking') this.#tokens.add(accountId, item.tokenHash);
    if (item.kind !== 'verify') return;
    this.#keys.add(item.key.accountId, item.key.keyId);
    this.#askers.add(accountId, item.key.keyId);
    const { presentation } = item.ask;
    if (presentation === null) return;
    this.#mandates.add(accountId, presentation.mandate_id);
    this.#nonces.add(accountId, presentation.nonce_hash);
  }

  get empty(): boolean {
    return this.#keys.empty && this.#tokens.empty;
  }

  texts(): string[] {
    return [this.#keys, this.#mandates, this.#nonces, this.#tokens].flatMap((one) => one.texts());
  }

  /** Calls `use` with every account and key that it asks with. */
  eachAsker(use: (accountId: string, keyId: string) => void): void {
    this.#askers.each((accountId, keyId) => use(accountId!, keyId!));
  }

  /** Calls `use` with every account and mandate that was looked for. */
  eachMandate(use: (accountId: string, mandateId: string) => void): void {
    this.#mandates.each((accountId, mandateId) => use(accountId!, mandateId!));
  }
}

/** Adds what was read to the facts of the batch. */
export function addVerifyFacts(batch: BatchFacts, row: VerifyFactsRow, asked: VerifyColumns): void {
  const keys = new Map((row.keys ?? []).map((one) => [String(one[1]), keyOf(one)]));
  asked.eachAsker((accountId, keyId) => {
    const key = keys.get(keyId);
    if (key !== undefined) batch.get(accountId)?.keys.set(keyId, key);
  });
  for (const one of row.mandates ?? []) {
    const facts = batch.get(String(one[0]));
    if (facts !== undefined) addMandate(facts, one.slice(1));
  }
  // What was looked for and not found is known as well.
  asked.eachMandate((accountId, mandateId) => {
    const facts = batch.get(accountId);
    if (facts !== undefined && !facts.mandates.has(mandateId)) facts.mandates.set(mandateId, null);
  });
  for (const one of row.escalations ?? []) addEscalation(batch, one);
  for (const [accountId, nonce] of row.nonces ?? []) batch.get(String(accountId))?.spentNonces.add(String(nonce));
  for (const one of row.authorisations ?? []) addAuthorisation(batch.get(String(one[0])), one);
  for (const [accountId, token, outcome, digest, answer] of row.executions ?? []) {
    const authorisation = batch.get(String(accountId))?.authorisations.get(String(token));
    authorisation?.executions.push({ outcome: String(outcome), digest: String(digest), answer: String(answer) });
  }
}

function keyOf(row: Row): KeyState {
  return {
    accountId: String(row[0]),
    keyId: String(row[1]),
    tokenHash: String(row[2]),
    scopes: (row[3] as readonly Json[]).map(String),
    status: String(row[4]),
    ratePerSecond: Number(row[5]),
    rateBurst: Number(row[6]),
  };
}

function addAuthorisation(facts: AccountFacts | undefined, row: Row): void {
  if (facts === undefined) return;
  const [mandateId, month] = [String(row[3]), String(row[4])];
  const key = monthKey(mandateId, month);
  if (!facts.months.has(key)) {
    facts.months.set(key, { month, stored: true, reserved: Number(row[15]), booked: Number(row[16]) });
  }
  facts.authorisations.set(String(row[1]), {
    accountId: String(row[0]),
    receiptId: String(row[2]),
    mandateId,
    month,
    keyId: String(row[5]),
    amount: Number(row[6]),
    currency: String(row[7]),
    actionType: String(row[8]),
    counterparty: textOf(row[9]),
    ctx: textOf(row[10]),
    state: row[11] as AuthorisationState['state'],
    booked: Number(row[12]),
    consumptionDigest: textOf(row[13]),
    consumptionAnswer: textOf(row[14]),
    perMonth: Number(row[17]),
    executions: [],
  });
}

function textOf(value: Json | undefined): string | null {
  return value === null || value === undefined ? null : String(value);
}
