import { createPrivateKey, generateKeyPairSync, type KeyObject } from 'node:crypto';
import { isJsonObject, parseStrictJson } from '../../core/json.ts';
import { publicJwk, readPublicJwk } from '../../core/jwk.ts';
import { SIGNING_KEY_PUBLISHED_MS } from '../../core/limits.ts';
import type { Custody } from '../custody/custody.ts';
import type { Sql, TransactionSql } from '../db/client.ts';

export const SIGNING_KEY_STATES = ['next', 'current', 'retired'] as const;
export type SigningKeyStatus = (typeof SIGNING_KEY_STATES)[number];

/** A row of `signing_keys`, as it is stored. */
export interface StoredKey {
  readonly kid: string;
  readonly public_jwk: string;
  readonly sealed: Buffer;
  readonly status: SigningKeyStatus;
}

/** A stored key that was found to be the service's own; a retired one has no private key any more. */
export interface OpenedKey {
  readonly kid: string;
  readonly publicKey: KeyObject;
  readonly privateKey: KeyObject | null;
}

/** What operators see of a key; times are RFC 3339 UTC. */
export interface SigningKeyView {
  readonly kid: string;
  readonly status: SigningKeyStatus;
  readonly created_at: string;
  readonly current_at: string | null;
  readonly retired_at: string | null;
}

/** What a rotation did, by `kid`. */
export interface Rotation {
  readonly current: string;
  readonly retired: string;
  readonly next: string;
}

/** In place of an account in what is sealed: these keys are nobody's. No account's identifier reads so. */
const SERVICE = 'service';

/** All keys, the newest first. */
export async function storedKeys(sql: Sql | TransactionSql): Promise<readonly StoredKey[]> {
  return await sql<StoredKey[]>`
    select kid, public_jwk::text, sealed, status from signing_keys order by signing_keys.created_at desc, kid`;
}

/**
 * Opens a stored key.
 *
 * @throws Error where this service did not make it: another master key sealed it, or its public key is another one
 */
export function openKey(custody: Custody, { kid, public_jwk, sealed, status }: StoredKey): OpenedKey {
  const secret = custody.open(SERVICE, 'signing', kid, sealed);
  try {
    const node = parseStrictJson(Buffer.from(public_jwk));
    const read = isJsonObject(node) ? readPublicJwk(node) : null;
    if (read === null || read.kid !== kid) throw new Error(`the public key of signing key ${kid} is not its own`);
    if (status === 'retired' && secret.length === 0) return { kid, publicKey: read.key, privateKey: null };
    const privateKey = createPrivateKey({ key: secret, format: 'der', type: 'pkcs8' });
    if (publicJwk(privateKey).kid !== kid) throw new Error(`the private key of signing key ${kid} is not its own`);
    return { kid, publicKey: read.key, privateKey };
  } finally {
    secret.fill(0);
  }
}

/** Makes the current and the next key where there are none yet; several control planes may start at once. */
export async function ensureKeys(sql: Sql, custody: Custody): Promise<void> {
  const known = await sql`select from signing_keys where status in ('current', 'next')`;
  if (known.length === 2) return;
  await sql.begin(async (tx) => {
    await lock(tx);
    const rows = await storedKeys(tx);
    for (const status of ['current', 'next'] as const) {
      if (!rows.some((row) => row.status === status)) await insertKey(tx, custody, status);
    }
  });
}

/**
 * Makes the next key the current one, retires the current one for good, and makes a new next one, all at once.
 *
 * A key that has not been published for SIGNING_KEY_PUBLISHED_MS yet is not made current, so that no control plane ever
 * publishes less than another signs with.
 *
 * @returns what it did, or for how many milliseconds the next key must still be published
 * @throws Error where there are no keys yet, or where the master key is another one
 */
export async function rotateKeys(sql: Sql, custody: Custody): Promise<Rotation | { readonly waitMs: number }> {
  return await sql.begin(async (tx) => {
    await lock(tx);
    const rows = await storedKeys(tx);
    const [current, next] = [rows.find(({ status }) => status === 'current'), rows.find(isNext)];
    if (current === undefined || next === undefined) {
      throw new Error('There are no signing keys yet: the first start of a control plane makes them.');
    }
    openKey(custody, next);
    const [age] = await tx<{ ms: number }[]>`
      select epoch_ms(db_clock()) - epoch_ms(created_at) as ms from signing_keys where kid = ${next.kid}`;
    const waitMs = SIGNING_KEY_PUBLISHED_MS - (age?.ms ?? 0);
    if (waitMs > 0) return { waitMs: Math.min(waitMs, SIGNING_KEY_PUBLISHED_MS) };
    const emptied = custody.seal(SERVICE, 'signing', current.kid, Buffer.alloc(0));
    await tx`update signing_keys set status = 'retired', retired_at = db_clock(), sealed = ${emptied}
      where kid = ${current.kid}`;
    await tx`update signing_keys set status = 'current', current_at = db_clock() where kid = ${next.kid}`;
    return { current: next.kid, retired: current.kid, next: await insertKey(tx, custody, 'next') };
  });
}

function isNext({ status }: StoredKey): boolean {
  return status === 'next';
}

/** All keys for operators, the newest first. */
export async function listKeys(sql: Sql): Promise<SigningKeyView[]> {
  const rows = await sql<SigningKeyView[]>`
    select kid, status, rfc3339(created_at) as created_at, rfc3339(current_at) as current_at,
      rfc3339(retired_at) as retired_at
    from signing_keys order by signing_keys.created_at desc, kid`;
  return [...rows];
}

/** One at a time: there is no row to lock before there is a key. */
async function lock(tx: TransactionSql): Promise<void> {
  await tx`select pg_advisory_xact_lock(hashtextextended('mandate signing keys', 0))`;
}

async function insertKey(tx: TransactionSql, custody: Custody, status: 'current' | 'next'): Promise<string> {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const jwk = publicJwk(privateKey);
  const secret = privateKey.export({ format: 'der', type: 'pkcs8' });
  const sealed = custody.seal(SERVICE, 'signing', jwk.kid, secret);
  secret.fill(0);
  await tx`insert into signing_keys (kid, public_jwk, sealed, status, created_at, current_at)
    values (${jwk.kid}, ${JSON.stringify(jwk)}::text::jsonb, ${sealed}, ${status}, db_clock(),
      case when ${status} = 'current' then db_clock() end)`;
  return jwk.kid;
}
