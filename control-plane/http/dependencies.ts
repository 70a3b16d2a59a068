import type { Custody } from '../custody/custody.ts';
import type { Sql } from '../db/client.ts';
import type { BookingMeans } from '../decisions/book-by-token.ts';
import type { CommandRunner } from '../decisions/command.ts';
import type { KeyUses } from '../keys/uses.ts';
import type { Rate } from '../rate-limit/classes.ts';
import type { Buckets } from '../rate-limit/operations.ts';
import type { SigningKeys } from '../signing/signing-keys.ts';
import type { Timestamps } from '../timestamps/timestamps.ts';

/** What the routes of every noun are built on. */
export interface RouteDependencies {
  /** For reading; state changes go through `commands`. */
  readonly sql: Sql;
  readonly commands: CommandRunner;
  readonly custody: Custody;
  readonly booking: BookingMeans;
  /** What signs tokens and credentials, and in whose name: the service's address. */
  readonly signing: Pick<SigningKeys, 'signLater' | 'log' | 'check' | 'jwks'>;
  readonly issuer: string;
  readonly buckets: Buckets;
  readonly allowPrivateTargets: boolean;
  readonly logError: (error: unknown, message: string) => void;
  /** Management class per session or address (interface.md, Limits); raised by tests. API keys have their own. */
  readonly managementRate?: Rate;
  /** Told of every request that a bucket refused. */
  readonly rateLimited?: (rateClass: 'management') => void;
  /** SHA-256 (hex) of the secret by which a proxy proves itself; null: no proxy is believed. */
  readonly internalSecretHash: string | null;
  /** Where the use of an API key is noted. */
  readonly keyUses: KeyUses;
  /** What an export that asks for a timestamp has it from; without it there are none. */
  readonly timestamps?: Pick<Timestamps, 'timestampNow'>;
  /** Told when a human answered an escalation, so that who waits for it here need not wait for the next look. */
  readonly escalationChanged?: (accountId: string, escalationId: string) => void;
  /** How old a second factor may be when an escalation is answered, in milliseconds. */
  readonly approvalFactorMs?: number;
}
