import type { EvidenceKind } from '../../core/evidence.ts';
import type { JsonValue } from '../../core/jcs.ts';
import type { Sql } from '../db/client.ts';

/** Where an appended entry stands in its account's chain. */
export interface AppendedEntry {
  readonly id: string;
  readonly seq: number;
  readonly at: string;
}

/**
 * What a command may use: it runs alone in a transaction that holds its account's head lock.
 *
 * `nowMs`/`now` are the database's time (Unix milliseconds / RFC 3339 UTC). `append` queues an evidence entry that is
 * written before the commit; a command that throws leaves nothing behind. Source: contract §10, design §2.3.
 */
export interface CommandContext {
  readonly sql: Sql;
  readonly accountId: string;
  readonly nowMs: number;
  readonly now: string;
  append(kind: EvidenceKind, body: { readonly [name: string]: JsonValue }, id?: string): AppendedEntry;
}

/** Options of a command: `open` runs first in the same transaction, for an account whose head does not exist yet. */
export interface CommandOptions {
  readonly open?: (sql: Sql, now: { readonly nowMs: number; readonly now: string }) => Promise<void>;
}

/** Runs commands on an account, one at a time, in the order of arrival among that account's decisions. */
export interface CommandRunner {
  command<T>(accountId: string, run: (context: CommandContext) => Promise<T>, options?: CommandOptions): Promise<T>;
}
