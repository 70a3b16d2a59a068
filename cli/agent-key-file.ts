import { createPrivateKey, generateKeyPairSync, type KeyObject } from 'node:crypto';
import { open, readFile, rm, stat } from 'node:fs/promises';
import { SigningKey } from '../core/ed25519.ts';
import { CliError } from './cli-error.ts';

const SEED_BYTES = 32;
const FILE_MAX_BYTES = 16 * 1024;

/**
 * Makes an Ed25519 key and writes it to a new file of mode 0600, as PKCS #8 in PEM (RFC 8410): what OpenSSL writes too.
 *
 * @throws CliError where a file of that name is there already (nothing is changed), or it cannot be written
 */
export async function createAgentKey(path: string): Promise<SigningKey> {
  const { privateKey } = generateKeyPairSync('ed25519');
  const file = await open(path, 'wx', 0o600).catch((error: unknown) => {
    throw notWritten(path, error);
  });
  try {
    await file.writeFile(privateKey.export({ type: 'pkcs8', format: 'pem' }));
    await file.sync();
  } catch (error) {
    await rm(path, { force: true });
    throw notWritten(path, error);
  } finally {
    await file.close();
  }
  return signingKey(privateKey);
}

/**
 * Reads an Ed25519 key that `createAgentKey` or OpenSSL wrote.
 *
 * @throws CliError where the file is readable by others, or holds no such key; its content is never repeated
 */
export async function readAgentKey(path: string): Promise<SigningKey> {
  const content = await readPrivate(path);
  let key: KeyObject;
  try {
    key = createPrivateKey({ key: content, format: 'pem' });
  } catch {
    // OpenSSL's reasons are about its own insides.
    throw noKey(path);
  } finally {
    content.fill(0);
  }
  if (key.asymmetricKeyType !== 'ed25519') throw noKey(path);
  return signingKey(key);
}

async function readPrivate(path: string): Promise<Buffer> {
  try {
    const { mode, size } = await stat(path);
    if ((mode & 0o077) !== 0) {
      throw new CliError(`${path} can be read by other users.`, { next: `Run: chmod 600 ${path}` });
    }
    if (size > FILE_MAX_BYTES) throw noKey(path);
    return await readFile(path);
  } catch (error) {
    if (error instanceof CliError) throw error;
    throw new CliError(`${path} cannot be read (${reason(error)}).`, {
      next: 'Name the file that `mandate agent-key create` wrote.',
    });
  }
}

/** The seed is the end of PKCS #8; this copy of it is cleared. */
function signingKey(key: KeyObject): SigningKey {
  const der = key.export({ type: 'pkcs8', format: 'der' });
  try {
    return new SigningKey(der.subarray(-SEED_BYTES));
  } finally {
    der.fill(0);
  }
}

function noKey(path: string): CliError {
  return new CliError(`${path} holds no Ed25519 key in PEM without a passphrase.`, {
    next: 'Make one with `mandate agent-key create --out <file>` or `openssl genpkey -algorithm ed25519`.',
  });
}

function notWritten(path: string, error: unknown): CliError {
  if (reason(error) === 'EEXIST') {
    return new CliError(`${path} is there already; nothing was changed.`, {
      next: 'Choose another file with --out: a key that was overwritten is gone.',
    });
  }
  return new CliError(`The key cannot be written to ${path} (${reason(error)}).`, {
    next: 'Choose another file with --out.',
    cause: error,
  });
}

function reason(error: unknown): string {
  return typeof error === 'object' && error !== null && 'code' in error ? String(error.code) : 'unreadable';
}
