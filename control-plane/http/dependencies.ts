import type { Custody } from '../custody/custody.ts';
import type { Sql } from '../db/client.ts';
import type { CommandRunner } from '../decisions/command.ts';
import type { TokenBuckets } from '../rate-limit/buckets.ts';

/** What the routes of every noun are built on. */
export interface RouteDependencies {
  /** For reading; state changes go through `commands`. */
  readonly sql: Sql;
  readonly commands: CommandRunner;
  readonly custody: Custody;
  readonly buckets: TokenBuckets;
  readonly allowPrivateTargets: boolean;
  readonly logError: (error: unknown, message: string) => void;
  /** Management class per session or address (interface.md, Limits); raised by benches and tests. */
  readonly managementRate?: { readonly perSecond: number; readonly burst: number };
  /** Told when a human answered an escalation, so that who waits for it here need not wait for the next look. */
  readonly escalationChanged?: (accountId: string, escalationId: string) => void;
}
