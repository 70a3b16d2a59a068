import { edgeOf, hashesOf } from '../../core/merkle-tree.ts';
import { candidateKeys, type Shape } from '../../core/tool-name.ts';
import type { Sql } from '../db/client.ts';
import {
  type AccountFacts,
  type AnswerState,
  answerKey,
  type EscalationStatus,
  type GrantState,
  type HeadState,
  type InstanceState,
  type ReservationState,
  type ToolState,
  toolKey,
} from './account-facts.ts';
import { Columns } from './columns.ts';
import { addEscalation, addMandate, type BatchFacts, type Json, type Row } from './fact-rows.ts';
import type { AskItem, HotItem } from './items.ts';
import { addVerifyFacts, VerifyColumns, type VerifyFactsRow } from './verify-facts.ts';

interface FactsRow {
  readonly now_ms: number;
  readonly heads: readonly Row[] | null;
  readonly instances: readonly Row[] | null;
  readonly tools: readonly Row[] | null;
  readonly escalations: readonly Row[] | null;
  readonly reservations: readonly Row[] | null;
  readonly answers: readonly Row[] | null;
  readonly grants: readonly Row[] | null;
  readonly verify?: VerifyFactsRow;
}

const places = (from: number, to: number): string =>
  Array.from({ length: to - from + 1 }, (_, i) => `$${from + i}`).join(', ');
const FACTS = `select * from decision_facts(${places(1, 13)})`;
/** The same with what verifications depend on, as of the same moment. */
const FACTS_TO_VERIFY = `select d.*, row_to_json(v) as verify
  from decision_facts(${places(1, 13)}) d cross join lateral verify_facts(d.now_ms, ${places(14, 21)}) v`;

export interface FactsRead {
  readonly batch: BatchFacts;
  /** The database's time, in milliseconds. */
  readonly nowMs: number;
}

/**
 * Reads what a batch depends on: takes the head locks and reads under them, in one round trip with `begin`.
 *
 * The template shapes of an instance are guessed from the last batch; where they changed, the tools are read again.
 */
export class FactReader {
  readonly #shapes = new Map<string, readonly string[]>();

  /**
   * Begins the transaction on `sql` and returns the facts of `items`; the caller commits or rolls back. With `begin`
   * false it reads within a transaction that the caller has begun.
   */
  async read(sql: Sql, items: readonly HotItem[], { begin = true } = {}): Promise<FactsRead> {
    const accounts = new Columns(1);
    const instances = new Columns(2);
    const tools = new Columns(3);
    const receipts = new Columns(2);
    const keys = new Columns(3);
    const tokens = new Columns(2);
    const verify = new VerifyColumns();
    for (const item of items) {
      accounts.add(item.accountId);
      verify.add(item);
      if (item.kind === 'outcome') receipts.add(item.accountId, item.outcome.receipt_id);
      if (item.kind !== 'ask' && item.kind !== 'verify') continue;
      const { ask, accountId } = item;
      const subjectId = item.kind === 'ask' ? item.instanceId : item.key.keyId;
      if (ask.idempotency_key_hash !== null) keys.add(accountId, subjectId, ask.idempotency_key_hash);
      if (ask.escalation_token_hash !== null) tokens.add(accountId, ask.escalation_token_hash);
      if (item.kind !== 'ask') continue;
      instances.add(accountId, item.instanceId);
      for (const key of this.#candidates(item)) tools.add(accountId, item.instanceId, key);
    }
    const columns = [accounts, instances, tools, receipts, keys, tokens].flatMap((one) => one.texts());
    const [statement, values] = verify.empty ? [FACTS, columns] : [FACTS_TO_VERIFY, [...columns, ...verify.texts()]];
    const [begun, read] = await Promise.allSettled([
      begin ? sql.unsafe('begin').execute() : null,
      sql.unsafe<FactsRow[]>(statement, values, { prepare: true }).execute(),
    ]);
    if (begun.status === 'rejected') throw begun.reason;
    if (read.status === 'rejected') throw read.reason;
    const row = read.value[0]!;
    const batch = batchOf(row);
    if (row.verify !== undefined) addVerifyFacts(batch, row.verify, verify);
    await this.#readMissedTools(sql, items, batch, tools);
    // What was looked for and not found is known as well.
    tools.each((accountId, instanceId, key) => {
      const facts = batch.get(accountId!);
      const known = toolKey(instanceId!, key!);
      if (facts !== undefined && !facts.tools.has(known)) facts.tools.set(known, null);
    });
    return { batch, nowMs: row.now_ms };
  }

  #candidates({ ask, instanceId }: AskItem): readonly string[] {
    return candidateKeys(ask.name, (this.#shapes.get(instanceId) ?? []) as readonly Shape[]);
  }

  async #readMissedTools(sql: Sql, items: readonly HotItem[], batch: BatchFacts, asked: Columns): Promise<void> {
    const missed = new Columns(3);
    for (const item of items) {
      if (item.kind !== 'ask') continue;
      const instance = batch.get(item.accountId)?.instances.get(item.instanceId);
      if (instance === undefined) continue;
      this.#remember(instance);
      if (instance.shapes.length === 0) continue;
      for (const key of candidateKeys(item.ask.name, instance.shapes as readonly Shape[])) {
        if (!asked.has(item.accountId, item.instanceId, key)) missed.add(item.accountId, item.instanceId, key);
      }
    }
    if (missed.empty) return;
    const rows = await sql.unsafe<{ row: Row }[]>(
      `select json_build_array(t.account_id, t.instance_id, t.key, t.tool_id, t.state, t.version) as row
       from unnest(list_of($1), list_of($2), list_of($3)) as asked (account_id, instance_id, key)
       join tools t on t.account_id = asked.account_id and t.instance_id = asked.instance_id and t.key = asked.key`,
      missed.texts(),
      { prepare: true },
    );
    for (const { row } of rows) addTool(batch, row);
    missed.each((accountId, instanceId, key) => asked.add(accountId!, instanceId!, key!));
  }

  #remember({ instanceId, shapes }: InstanceState): void {
    if (shapes.length === 0) this.#shapes.delete(instanceId);
    else if (this.#shapes.size < SHAPE_HINTS_MAX || this.#shapes.has(instanceId)) this.#shapes.set(instanceId, shapes);
  }
}

const SHAPE_HINTS_MAX = 10_000;

function batchOf(row: FactsRow): BatchFacts {
  const batch: BatchFacts = new Map();
  for (const head of row.heads ?? []) batch.set(String(head[0]), emptyFacts(headOf(head, row.now_ms)));
  for (const instance of row.instances ?? []) addInstance(batch, instance);
  for (const tool of row.tools ?? []) addTool(batch, tool);
  for (const one of row.escalations ?? []) addEscalation(batch, one);
  for (const one of row.reservations ?? []) {
    batch.get(String(one[0]))?.reservations.set(String(one[1]), reservationOf(one));
  }
  for (const one of row.answers ?? []) {
    batch.get(String(one[8]))?.answers.set(answerKey(String(one[0]), String(one[1])), answerOf(one));
  }
  for (const one of row.grants ?? []) batch.get(String(one[0]))?.grants.set(String(one[1]), grantOf(one));
  return batch;
}

function headOf(row: Row, databaseMs: number): HeadState {
  const [accountId, size, hash, atMs, revision, edge] = row;
  // The chain's time never goes back, even where the clock was set back.
  const nowMs = Math.max(databaseMs, Number(atMs));
  return {
    accountId: String(accountId),
    nowMs,
    now: new Date(nowMs).toISOString(),
    size: Number(size),
    hash: String(hash),
    edge: edgeOf(Number(size), hashesOf(String(edge))),
    before: String(hash),
    revision: Number(revision),
  };
}

function emptyFacts(head: HeadState): AccountFacts {
  return {
    head,
    mandates: new Map(),
    instances: new Map(),
    months: new Map(),
    tools: new Map(),
    escalations: [],
    reservations: new Map(),
    answers: new Map(),
    grants: new Map(),
    keys: new Map(),
    spentNonces: new Set(),
    authorisations: new Map(),
  };
}

function addInstance(batch: BatchFacts, row: Row): void {
  const accountId = String(row[0]);
  const facts = batch.get(accountId);
  if (facts === undefined) return;
  facts.instances.set(String(row[1]), {
    accountId,
    instanceId: String(row[1]),
    status: String(row[2]),
    tokenHash: String(row[3]),
    configVersion: Number(row[4]),
    shapes: (row[5] as readonly Json[]).map(String),
    unmappedTools: Number(row[6]),
    ratePerSecond: Number(row[7]),
    rateBurst: Number(row[8]),
    mandate: addMandate(facts, row.slice(9)),
  });
}

function addTool(batch: BatchFacts, row: Row): void {
  const [accountId, instanceId, key, toolId, state, version] = row;
  batch.get(String(accountId))?.tools.set(toolKey(String(instanceId), String(key)), {
    accountId: String(accountId),
    instanceId: String(instanceId),
    key: String(key),
    toolId: String(toolId),
    state: state as ToolState['state'],
    version: Number(version),
  });
}

function reservationOf(row: Row): ReservationState {
  return {
    accountId: String(row[0]),
    receiptId: String(row[1]),
    mandateId: String(row[2]),
    month: String(row[3]),
    subjectId: String(row[4]),
    amount: Number(row[5]),
    state: row[6] as ReservationState['state'],
    keyHash: row[7] === null ? null : String(row[7]),
  };
}

function answerOf(row: Row): AnswerState {
  return {
    requestDigest: String(row[2]),
    receiptId: String(row[3]),
    state: row[4] as AnswerState['state'],
    status: row[5] === null ? null : Number(row[5]),
    headers: (row[6] ?? []) as readonly (readonly [string, string])[],
    body: row[7] === null ? null : String(row[7]),
  };
}

function grantOf(row: Row): GrantState {
  return {
    escalationId: String(row[2]),
    mandateId: String(row[3]),
    subjectId: String(row[4]),
    ctx: String(row[5]),
    status: row[6] as EscalationStatus,
    closesAtMs: Number(row[7]),
    decidedBy: row[8] === null ? null : String(row[8]),
  };
}
