import { newSeed, SigningKey } from '../../core/ed25519.ts';
import type { Custody } from '../custody/custody.ts';
import type { Sql } from '../db/client.ts';

/** What signs checkpoints: one Ed25519 key for the logs of all accounts, under each log's own name. */
export type LogKey = Pick<SigningKey, 'publicKey' | 'sign'>;

/** What operators see of a log key: base64 of its 32 bytes, and an RFC 3339 time. */
export interface LogKeyView {
  readonly public_key: string;
  readonly created_at: string;
}

/** In place of an account in what is sealed: the key is nobody's. */
const SERVICE = 'service';

/**
 * Opens the log key, and makes it where there is none yet; several control planes may start at once.
 *
 * @throws Error where another master key sealed it, or its public key is another one
 */
export async function openLogKey(sql: Sql, custody: Custody): Promise<LogKey> {
  const stored = (await readKey(sql)) ?? (await makeKey(sql, custody));
  const seed = custody.open(SERVICE, 'log', stored.public_key.toString('hex'), stored.sealed);
  try {
    const key = new SigningKey(seed);
    if (!stored.public_key.equals(key.publicKey)) throw new Error('the public key of the log is not its own');
    return key;
  } finally {
    seed.fill(0);
  }
}

/** The log keys for operators. */
export async function listLogKeys(sql: Sql): Promise<LogKeyView[]> {
  const rows = await sql<LogKeyView[]>`
    select encode(public_key, 'base64') as public_key, rfc3339(created_at) as created_at from log_keys`;
  return [...rows];
}

interface StoredLogKey {
  readonly public_key: Buffer;
  readonly sealed: Buffer;
}

async function readKey(sql: Sql): Promise<StoredLogKey | null> {
  const [row] = await sql<StoredLogKey[]>`select public_key, sealed from log_keys`;
  return row ?? null;
}

/** Whoever comes first makes it; the others use that one. */
async function makeKey(sql: Sql, custody: Custody): Promise<StoredLogKey> {
  const seed = newSeed();
  try {
    const publicKey = Buffer.from(new SigningKey(seed).publicKey);
    const sealed = custody.seal(SERVICE, 'log', publicKey.toString('hex'), seed);
    await sql`insert into log_keys (public_key, sealed, created_at) values (${publicKey}, ${sealed}, db_clock())
      on conflict (only_row) do nothing`;
  } finally {
    seed.fill(0);
  }
  const made = await readKey(sql);
  if (made === null) throw new Error('the log key that was made is not there');
  return made;
}
