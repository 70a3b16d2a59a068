import type { ApiScope } from '../../core/api-scopes.ts';
import { ProblemError } from '../../core/errors.ts';
import { API_KEYS_ACTIVE_MAX } from '../../core/limits.ts';
import { sameHash, secretHash } from '../../core/secret-token.ts';
import { newTypeId } from '../../core/type-id.ts';
import type { Sql } from '../db/client.ts';
import type { CommandContext } from '../decisions/command.ts';
import type { KeyChange, KeyInput } from './input.ts';

/** Requests per second and burst of both classes (interface.md, Limits); a key may have its own. */
export const KEY_RATES = {
  verify_per_second: 100,
  verify_burst: 500,
  management_per_second: 10,
  management_burst: 20,
} as const;
type Rates = Record<keyof typeof KEY_RATES, number>;

/** A row of `api_keys` with its last use; the hash of the secret is never read here. */
export interface KeyRecord extends Rates {
  readonly key_id: string;
  readonly name: string;
  readonly scopes: ApiScope[];
  readonly status: 'active' | 'revoked';
  readonly created_at: number;
  readonly revoked_at: number | null;
  readonly last_used_at: number | null;
}

/** A key that was shown with a request, as its row is at this moment. Rates are requests per second. */
export interface LiveKey {
  readonly accountId: string;
  readonly keyId: string;
  readonly scopes: readonly ApiScope[];
  readonly management: { readonly perSecond: number; readonly burst: number };
  /** The database's time, Unix milliseconds. */
  readonly nowMs: number;
}

/**
 * The key of a secret, or null: unknown and revoked are one. It is read anew for every request, so a revocation that
 * was answered is seen by each request that starts after it.
 */
export async function findKey(sql: Sql, token: string): Promise<LiveKey | null> {
  const tokenHash = secretHash(token);
  const [row] = await sql<
    {
      account_id: string;
      key_id: string;
      hash: string;
      scopes: ApiScope[];
      management_per_second: number;
      management_burst: number;
      now: number;
    }[]
  >`
    select k.account_id, k.key_id, encode(k.token_hash, 'hex') as hash, k.scopes, k.management_per_second,
      k.management_burst, epoch_ms(db_clock()) as now
    from token_routes r join api_keys k on k.account_id = r.account_id and k.key_id = r.subject_id
    where r.token_hash = decode(${tokenHash}, 'hex') and r.kind = 'api_key' and k.status = 'active'`;
  if (row === undefined || !sameHash(row.hash, tokenHash)) return null;
  return {
    accountId: row.account_id,
    keyId: row.key_id,
    scopes: row.scopes,
    management: { perSecond: row.management_per_second, burst: row.management_burst },
    nowMs: row.now,
  };
}

/** The keys of an account: those that work first, then the newest; or the one of an id. */
export async function readKeys(sql: Sql, accountId: string, id: string | null): Promise<KeyRecord[]> {
  return sql<KeyRecord[]>`
    select k.key_id, k.name, k.scopes, k.status, k.verify_per_second, k.verify_burst, k.management_per_second,
      k.management_burst, k.created_at, k.revoked_at, u.last_used_at
    from api_keys k left join api_key_uses u on u.account_id = k.account_id and u.key_id = k.key_id
    where k.account_id = ${accountId} and (${id}::text is null or k.key_id = ${id})
    order by k.status, k.key_id desc limit 1000`;
}

/** @throws ProblemError 404 */
export async function readKey(sql: Sql, accountId: string, id: string): Promise<KeyRecord> {
  const [row] = await readKeys(sql, accountId, id);
  if (row === undefined) throw new ProblemError('not_found', 'There is no such API key.');
  return row;
}

/**
 * Makes a key within a command; `token` is shown once and stored as its hash only.
 *
 * @throws ProblemError 403 `forbidden` without a second factor (interface.md, Authentication 2), 409 `conflict` where
 *   the account has too many
 */
export async function createKey(context: CommandContext, input: KeyInput, token: string): Promise<KeyRecord> {
  const { sql, accountId, now } = context;
  await refuseMore(context);
  const id = newTypeId('key', context.nowMs);
  const { name, scopes, ...given } = input;
  const rates = merged(KEY_RATES, given);
  await sql`insert into api_keys (account_id, key_id, name, token_hash, scopes, status, verify_per_second,
      verify_burst, management_per_second, management_burst, created_at)
    values (${accountId}, ${id}, ${name}, decode(${secretHash(token)}, 'hex'), ${scopes}::text[], 'active',
      ${rates.verify_per_second}, ${rates.verify_burst}, ${rates.management_per_second}, ${rates.management_burst},
      ${now})`;
  await sql`insert into token_routes (token_hash, kind, account_id, subject_id)
    values (decode(${secretHash(token)}, 'hex'), 'api_key', ${accountId}, ${id})`;
  context.append('key.created', { key_id: id, name, scopes, ...rates, token_sha256: secretHash(token) });
  return readKey(sql, accountId, id);
}

/**
 * Changes the name or the rates of a key within a command; its scopes never change.
 *
 * @throws ProblemError 404, 409 `conflict` where it is revoked
 */
export async function changeKey(context: CommandContext, id: string, change: KeyChange): Promise<KeyRecord> {
  const { sql, accountId } = context;
  const before = await readKey(sql, accountId, id);
  refuseRevoked(before);
  const { name = before.name, ...given } = change;
  const rates = merged(before, given);
  await sql`update api_keys set name = ${name}, verify_per_second = ${rates.verify_per_second},
      verify_burst = ${rates.verify_burst}, management_per_second = ${rates.management_per_second},
      management_burst = ${rates.management_burst}
    where account_id = ${accountId} and key_id = ${id}`;
  context.append('key.changed', { key_id: id, name, ...rates });
  return readKey(sql, accountId, id);
}

/**
 * Ends a key for good within a command.
 *
 * @throws ProblemError 404, 409 `conflict` where it is revoked
 */
export async function revokeKey(context: CommandContext, id: string): Promise<KeyRecord> {
  const { sql, accountId, now } = context;
  refuseRevoked(await readKey(sql, accountId, id));
  await sql`update api_keys set status = 'revoked', revoked_at = ${now}
    where account_id = ${accountId} and key_id = ${id}`;
  await sql`delete from token_routes where kind = 'api_key' and account_id = ${accountId} and subject_id = ${id}`;
  context.append('key.revoked', { key_id: id });
  return readKey(sql, accountId, id);
}

function refuseRevoked({ status }: KeyRecord): void {
  if (status === 'revoked') throw new ProblemError('conflict', 'The key is revoked already.');
}

async function refuseMore({ sql, accountId }: CommandContext): Promise<void> {
  const [row] = await sql<{ second_factor: boolean; active: number }[]>`
    select second_factor_at is not null as second_factor,
      (select count(*) from api_keys k where k.account_id = a.account_id and k.status = 'active') as active
    from accounts a where a.account_id = ${accountId}`;
  // No session exists without it; keys outlive sessions, so it is looked at where they are made.
  if (row?.second_factor !== true) {
    throw new ProblemError('forbidden', 'Set up the second factor first: an API key needs an account that has one.');
  }
  if (row.active >= API_KEYS_ACTIVE_MAX) {
    throw new ProblemError('conflict', `The account has ${API_KEYS_ACTIVE_MAX} active keys; revoke some first.`);
  }
}

function merged(before: Rates, given: { readonly [name in keyof Rates]?: number | undefined }): Rates {
  return {
    verify_per_second: given.verify_per_second ?? before.verify_per_second,
    verify_burst: given.verify_burst ?? before.verify_burst,
    management_per_second: given.management_per_second ?? before.management_per_second,
    management_burst: given.management_burst ?? before.management_burst,
  };
}
