import type { KeyObject } from 'node:crypto';
import { type PublicJwk, publicJwk } from '../../core/jwk.ts';
import { checkJws, type JwsReading, type JwsType, signJws, signJwsLater } from '../../core/jws.ts';
import { SIGNING_KEYS_REFRESH_MS } from '../../core/limits.ts';
import type { Custody } from '../custody/custody.ts';
import type { Sql } from '../db/client.ts';
import { type LogKey, openLogKey } from './log-key.ts';
import { ensureKeys, type OpenedKey, openKey, type StoredKey, storedKeys } from './stored-keys.ts';

interface KnownKey extends OpenedKey {
  readonly sealed: Buffer;
  readonly jwk: PublicJwk;
}

interface Known {
  readonly keys: ReadonlyMap<string, KnownKey>;
  readonly signer: { readonly kid: string; readonly key: KeyObject };
}

type LogError = (error: unknown, message: string) => void;

/**
 * The keys that the service signs with (ES256, and Ed25519 for checkpoints), the same for every control plane; private
 * ones are held in memory only.
 *
 * The key that comes next is published from the time it is made, so that whoever keeps the JWKS for a while meets no
 * unknown key after a rotation, and every control plane publishes a key before any of them signs with it. A rotation is
 * taken up within SIGNING_KEYS_REFRESH_MS; what was signed until then with the key before stays valid, since retired
 * keys stay published. While the database is away the keys that were read last go on. Source: contract §9.
 */
export class SigningKeys {
  /** The Ed25519 key of checkpoints; it does not change while a process runs. */
  readonly log: LogKey;
  readonly #sql: Sql;
  readonly #custody: Custody;
  readonly #logError: LogError;
  #known: Known;
  #timer: NodeJS.Timeout | null = null;
  #closed = false;

  private constructor(sql: Sql, custody: Custody, logError: LogError, known: Known, log: LogKey) {
    this.log = log;
    this.#sql = sql;
    this.#custody = custody;
    this.#logError = logError;
    this.#known = known;
  }

  /**
   * Reads the keys, makes the first ones where there are none, and keeps up with rotations until {@link close}.
   *
   * @throws Error where a stored key cannot be opened or is not the service's own
   */
  static async open(sql: Sql, custody: Custody, logError: LogError): Promise<SigningKeys> {
    await ensureKeys(sql, custody);
    const log = await openLogKey(sql, custody);
    const keys = new SigningKeys(sql, custody, logError, known(await storedKeys(sql), custody, new Map()), log);
    keys.#schedule();
    return keys;
  }

  /** Reads no more. */
  close(): void {
    this.#closed = true;
    if (this.#timer !== null) clearTimeout(this.#timer);
  }

  /** Signs JSON text as a token of this type, at once. */
  sign(typ: JwsType, payload: string): string {
    const { kid, key } = this.#known.signer;
    return signJws({ typ, kid }, payload, key);
  }

  /** As {@link sign}, off the main thread. */
  signLater(typ: JwsType, payload: string): Promise<string> {
    const { kid, key } = this.#known.signer;
    return signJwsLater({ typ, kid }, payload, key);
  }

  /** Checks a token that the service signed with any of its keys, retired ones included; see `checkJws`. */
  check(token: string, typ: JwsType): JwsReading {
    return checkJws(token, typ, (kid) => this.keyOf(kid));
  }

  /** Every public key: next, current and retired, the newest first (RFC 7517 §5). */
  jwks(): { readonly keys: readonly PublicJwk[] } {
    return { keys: Array.from(this.#known.keys.values(), ({ jwk }) => jwk) };
  }

  /** The public key of an identifier, or null. */
  keyOf(kid: string): KeyObject | null {
    return this.#known.keys.get(kid)?.publicKey ?? null;
  }

  /** Reads the keys again; where that fails, what was known stays. */
  async reload(): Promise<void> {
    this.#known = known(await storedKeys(this.#sql), this.#custody, this.#known.keys);
  }

  #schedule(): void {
    if (this.#closed) return;
    this.#timer = setTimeout(() => {
      this.reload()
        .catch((error: unknown) => {
          if (!this.#closed) this.#logError(error, 'the signing keys could not be read again');
        })
        .finally(() => this.#schedule());
    }, SIGNING_KEYS_REFRESH_MS).unref();
  }
}

/** Opens what is stored; keys that have not changed since are not opened again. */
function known(rows: readonly StoredKey[], custody: Custody, before: ReadonlyMap<string, KnownKey>): Known {
  const keys = new Map(
    rows.map((row): [string, KnownKey] => {
      const same = before.get(row.kid);
      if (same?.sealed.equals(row.sealed)) return [row.kid, same];
      const opened = openKey(custody, row);
      return [row.kid, { ...opened, sealed: row.sealed, jwk: publicJwk(opened.publicKey) }];
    }),
  );
  const current = rows.find(({ status }) => status === 'current');
  const key = current === undefined ? null : keys.get(current.kid)?.privateKey;
  if (current === undefined || !key) throw new Error('there is no current signing key');
  return { keys, signer: { kid: current.kid, key } };
}
