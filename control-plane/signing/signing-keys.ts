import { createPrivateKey, createPublicKey, generateKeyPairSync, type KeyObject } from 'node:crypto';
import { type PublicJwk, publicJwk, signJws, signJwsLater } from '../../core/jws.ts';
import type { Custody } from '../custody/custody.ts';
import type { Sql } from '../db/client.ts';

/** How often the keys are read again, in milliseconds: a rotation elsewhere is in use everywhere soon after it. */
const REFRESH_MS = 5_000;

interface KeyRow {
  readonly kid: string;
  readonly public_jwk: PublicJwk;
  readonly sealed: Buffer;
  readonly status: 'next' | 'current' | 'retired';
}

/** What is known of a signing key besides its secret; times are RFC 3339 UTC. */
export interface SigningKeyView {
  readonly kid: string;
  readonly status: KeyRow['status'];
  readonly created_at: string;
  readonly current_at: string | null;
  readonly retired_at: string | null;
}

/**
 * The ES256 keys that the service signs with; every replica has the same ones.
 *
 * The key that comes next is published (JWKS) from the start, long before anything is signed with it: a rotation makes
 * it the current one, retires the one before and makes a new next one, so that nobody who keeps a JWKS for a while ever
 * meets an unknown key. Source: contract §9.
 */
export class SigningKeys {
  readonly #sql: Sql;
  readonly #custody: Custody;
  readonly #logError: (error: unknown, message: string) => void;
  #current: { readonly kid: string; readonly key: KeyObject } | null = null;
  #public: readonly PublicJwk[] = [];
  #keys: ReadonlyMap<string, KeyObject> = new Map();
  #timer: NodeJS.Timeout | null = null;

  private constructor(sql: Sql, custody: Custody, logError: (error: unknown, message: string) => void) {
    this.#sql = sql;
    this.#custody = custody;
    this.#logError = logError;
  }

  /** Reads the keys, makes the first ones where there are none, and keeps up with rotations until `close`. */
  static async open(
    sql: Sql,
    custody: Custody,
    logError: (error: unknown, message: string) => void,
  ): Promise<SigningKeys> {
    const keys = new SigningKeys(sql, custody, logError);
    await ensureKeys(sql, custody);
    await keys.#load();
    keys.#timer = setInterval(() => {
      keys.#load().catch((error: unknown) => keys.#logError(error, 'the signing keys could not be read again'));
    }, REFRESH_MS);
    keys.#timer.unref();
    return keys;
  }

  close(): void {
    if (this.#timer !== null) clearInterval(this.#timer);
  }

  /** Signs JSON text as a token of this type, at once. */
  sign(typ: string, payload: string): string {
    const { kid, key } = this.#signer();
    return signJws({ typ, kid }, payload, key);
  }

  /** As {@link sign}, off the main thread. */
  signLater(typ: string, payload: string): Promise<string> {
    const { kid, key } = this.#signer();
    return signJwsLater({ typ, kid }, payload, key);
  }

  /** Every public key: the next, the current and the retired ones (RFC 7517). */
  jwks(): { readonly keys: readonly PublicJwk[] } {
    return { keys: this.#public };
  }

  /** The public key of an identifier, or null. */
  keyOf(kid: string): KeyObject | null {
    return this.#keys.get(kid) ?? null;
  }

  #signer(): { readonly kid: string; readonly key: KeyObject } {
    if (this.#current === null) throw new Error('there is no current signing key');
    return this.#current;
  }

  async #load(): Promise<void> {
    const rows = await this.#sql<KeyRow[]>`
      select kid, public_jwk, sealed, status from signing_keys order by created_at, kid`;
    const current = rows.find(({ status }) => status === 'current');
    if (current === undefined) throw new Error('there is no current signing key');
    if (this.#current?.kid !== current.kid) this.#current = { kid: current.kid, key: open(this.#custody, current) };
    this.#public = rows.map((row) => row.public_jwk);
    this.#keys = new Map(rows.map(({ kid, public_jwk }) => [kid, publicKeyOf(public_jwk)]));
  }
}

/** The keys as operators see them, the newest first. */
export async function listSigningKeys(sql: Sql): Promise<SigningKeyView[]> {
  const rows = await sql<
    {
      kid: string;
      status: KeyRow['status'];
      created_at: number;
      current_at: number | null;
      retired_at: number | null;
    }[]
  >`
    select kid, status, epoch_ms(created_at) as created_at, epoch_ms(current_at) as current_at,
      epoch_ms(retired_at) as retired_at
    from signing_keys order by signing_keys.created_at desc, kid`;
  const time = (ms: number | null): string | null => (ms === null ? null : new Date(ms).toISOString());
  return rows.map(({ kid, status, created_at, current_at, retired_at }) => ({
    ...{ kid, status, created_at: new Date(created_at).toISOString() },
    ...{ current_at: time(current_at), retired_at: time(retired_at) },
  }));
}

/** Makes the next key the current one and retires the one before; both replicas and checkers know it already. */
export async function rotateSigningKeys(sql: Sql, custody: Custody): Promise<void> {
  await ensureKeys(sql, custody);
  await sql.begin(async (tx) => {
    await lock(tx as unknown as Sql);
    await tx`update signing_keys set status = 'retired', retired_at = db_clock() where status = 'current'`;
    await tx`update signing_keys set status = 'current', current_at = db_clock() where status = 'next'`;
    await insertKey(tx as unknown as Sql, custody, 'next');
  });
}

/** Makes the current and the next key where they are missing; several control planes may start at once. */
async function ensureKeys(sql: Sql, custody: Custody): Promise<void> {
  const known = await sql`select from signing_keys where status in ('current', 'next')`;
  if (known.length === 2) return;
  await sql.begin(async (tx) => {
    await lock(tx as unknown as Sql);
    const rows = await tx<{ status: string }[]>`select status from signing_keys`;
    for (const status of ['current', 'next'] as const) {
      if (!rows.some((row) => row.status === status)) await insertKey(tx as unknown as Sql, custody, status);
    }
  });
}

/** One at a time: the rows themselves cannot be locked while there are none. */
async function lock(tx: Sql): Promise<void> {
  await tx`select pg_advisory_xact_lock(hashtextextended('mandate signing keys', 0))`;
}

async function insertKey(tx: Sql, custody: Custody, status: 'current' | 'next'): Promise<void> {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const jwk = publicJwk(privateKey);
  const der = privateKey.export({ format: 'der', type: 'pkcs8' });
  const sealed = custody.seal(SERVICE, 'signing', jwk.kid, der);
  der.fill(0);
  await tx`insert into signing_keys (kid, public_jwk, sealed, status, created_at, current_at)
    values (${jwk.kid}, ${JSON.stringify(jwk)}::text::jsonb, ${sealed}, ${status}, db_clock(),
      case when ${status} = 'current' then db_clock() end)`;
}

/** In place of an account in what is sealed: these keys are nobody's. */
const SERVICE = 'service';

function open(custody: Custody, { kid, sealed }: KeyRow): KeyObject {
  const der = custody.open(SERVICE, 'signing', kid, sealed);
  try {
    return createPrivateKey({ key: der, format: 'der', type: 'pkcs8' });
  } finally {
    der.fill(0);
  }
}

function publicKeyOf({ kty, crv, x, y }: PublicJwk): KeyObject {
  return createPublicKey({ key: { kty, crv, x, y }, format: 'jwk' });
}
