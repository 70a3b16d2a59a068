import { candidateKeys, type Shape } from '../../core/tool-name.ts';
import type { Sql } from '../db/client.ts';
import {
  type AnswerState,
  answerKey,
  type BatchState,
  type EscalationState,
  type EscalationStatus,
  type GrantState,
  grantKey,
  type HeadState,
  type InstanceState,
  type MandateState,
  type MonthState,
  monthKey,
  type ReservationState,
  type ToolState,
  toolKey,
} from './batch-state.ts';
import type { AskItem, HotItem } from './items.ts';
import { joined } from './record.ts';

type Json = string | number | boolean | null | readonly Json[];
type Row = readonly Json[];

interface FactsRow {
  readonly now_ms: number;
  readonly heads: readonly Row[] | null;
  readonly instances: readonly Row[] | null;
  readonly tools: readonly Row[] | null;
  readonly escalations: readonly Row[] | null;
  readonly reservations: readonly Row[] | null;
  readonly answers: readonly Row[] | null;
  readonly grants: readonly Row[] | null;
}

const FACTS = `select * from decision_facts(${Array.from({ length: 13 }, (_, i) => `$${i + 1}`).join(', ')})`;

/** Distinct tuples of a batch, kept as the columns that the query takes. */
class Columns {
  readonly #seen = new Set<string>();
  readonly #columns: string[][];

  constructor(width: number) {
    this.#columns = Array.from({ length: width }, () => []);
  }

  add(...values: string[]): void {
    const key = values.join('\u001f');
    if (this.#seen.has(key)) return;
    this.#seen.add(key);
    for (let i = 0; i < values.length; i++) this.#columns[i]!.push(values[i]!);
  }

  has(...values: string[]): boolean {
    return this.#seen.has(values.join('\u001f'));
  }

  get empty(): boolean {
    return this.#seen.size === 0;
  }

  texts(): string[] {
    return this.#columns.map(joined);
  }
}

/**
 * Reads what a batch depends on: takes the head locks and reads under them, in one round trip with `begin`.
 *
 * The template shapes of an instance are guessed from the last batch; where they changed, the tools are read again.
 */
export class FactReader {
  readonly #shapes = new Map<string, readonly string[]>();

  /** Begins the transaction on `sql` and returns the facts of `items`; the caller commits or rolls back. */
  async read(sql: Sql, items: readonly HotItem[]): Promise<BatchState> {
    const accounts = new Columns(1);
    const instances = new Columns(2);
    const tools = new Columns(3);
    const receipts = new Columns(2);
    const keys = new Columns(3);
    const tokens = new Columns(2);
    for (const item of items) {
      accounts.add(item.accountId);
      if (item.kind === 'outcome') {
        receipts.add(item.accountId, item.outcome.receipt_id);
        continue;
      }
      const { ask, accountId, instanceId } = item;
      instances.add(accountId, instanceId);
      for (const key of this.#candidates(item)) tools.add(accountId, instanceId, key);
      if (ask.idempotency_key_hash !== null) keys.add(accountId, instanceId, ask.idempotency_key_hash);
      if (ask.escalation_token_hash !== null) tokens.add(accountId, ask.escalation_token_hash);
    }
    const columns = [accounts, instances, tools, receipts, keys, tokens].flatMap((one) => one.texts());
    const [begun, read] = await Promise.allSettled([
      sql.unsafe('begin').execute(),
      sql.unsafe<FactsRow[]>(FACTS, columns, { prepare: true }).execute(),
    ]);
    if (begun.status === 'rejected') throw begun.reason;
    if (read.status === 'rejected') throw read.reason;
    const state = stateOf(read.value[0]!);
    await this.#readMissedTools(sql, items, state, tools);
    return state;
  }

  #candidates({ ask, instanceId }: AskItem): readonly string[] {
    return candidateKeys(ask.name, (this.#shapes.get(instanceId) ?? []) as readonly Shape[]);
  }

  async #readMissedTools(sql: Sql, items: readonly HotItem[], state: BatchState, asked: Columns): Promise<void> {
    const missed = new Columns(3);
    for (const item of items) {
      if (item.kind !== 'ask') continue;
      const instance = state.instances.get(item.instanceId);
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
    for (const { row } of rows) addTool(state.tools, row);
  }

  #remember({ instanceId, shapes }: InstanceState): void {
    if (shapes.length === 0) this.#shapes.delete(instanceId);
    else if (this.#shapes.size < SHAPE_HINTS_MAX || this.#shapes.has(instanceId)) this.#shapes.set(instanceId, shapes);
  }
}

const SHAPE_HINTS_MAX = 10_000;

function stateOf(row: FactsRow): BatchState {
  const heads = new Map<string, HeadState>();
  for (const [accountId, size, hash, atMs] of row.heads ?? []) {
    // The chain's time never goes back, even where the clock was set back.
    const nowMs = Math.max(row.now_ms, Number(atMs));
    const now = new Date(nowMs).toISOString();
    heads.set(String(accountId), { accountId: String(accountId), nowMs, now, size: Number(size), hash: String(hash) });
  }
  const months = new Map<string, MonthState>();
  const tools = new Map<string, ToolState>();
  for (const tool of row.tools ?? []) addTool(tools, tool);
  return {
    heads,
    months,
    tools,
    instances: instancesOf(row.instances ?? [], months),
    escalations: escalationsOf(row.escalations ?? []),
    reservations: new Map((row.reservations ?? []).map((one) => [String(one[1]), reservationOf(one)])),
    answers: new Map((row.answers ?? []).map((one) => [answerKey(String(one[0]), String(one[1])), answerOf(one)])),
    grants: new Map((row.grants ?? []).map((one) => [grantKey(String(one[0]), String(one[1])), grantOf(one)])),
  };
}

function instancesOf(rows: readonly Row[], months: Map<string, MonthState>): Map<string, InstanceState> {
  const mandates = new Map<string, MandateState>();
  const instances = new Map<string, InstanceState>();
  for (const row of rows) {
    const [accountId, mandateId] = [String(row[0]), String(row[9])];
    const mandate = mandates.get(mandateId) ?? {
      accountId,
      mandateId,
      version: Number(row[10]),
      status: String(row[11]),
      uses: Number(row[12]),
    };
    mandates.set(mandateId, mandate);
    const month = String(row[13]);
    const key = monthKey(mandateId, month);
    const monthState = months.get(key) ?? { month, reserved: Number(row[14]), booked: Number(row[15]) };
    months.set(key, monthState);
    instances.set(String(row[1]), {
      accountId,
      instanceId: String(row[1]),
      status: String(row[2]),
      tokenHash: String(row[3]),
      configVersion: Number(row[4]),
      shapes: (row[5] as readonly Json[]).map(String),
      unmappedTools: Number(row[6]),
      ratePerSecond: Number(row[7]),
      rateBurst: Number(row[8]),
      mandate,
      month: monthState,
    });
  }
  return instances;
}

function addTool(tools: Map<string, ToolState>, row: Row): void {
  const [accountId, instanceId, key, toolId, state, version] = row;
  tools.set(toolKey(String(instanceId), String(key)), {
    accountId: String(accountId),
    instanceId: String(instanceId),
    key: String(key),
    toolId: String(toolId),
    state: state as ToolState['state'],
    version: Number(version),
  });
}

function escalationsOf(rows: readonly Row[]): EscalationState[] {
  const known = new Map<string, EscalationState>();
  for (const row of rows) {
    known.set(String(row[1]), {
      escalationId: String(row[1]),
      mandateId: String(row[2]),
      subjectId: String(row[3]),
      ctx: String(row[4]),
      status: row[5] as EscalationStatus,
      createdAtMs: Number(row[6]),
      expiresAtMs: Number(row[7]),
      closesAtMs: Number(row[8]),
    });
  }
  return [...known.values()];
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
