import { createCipheriv, createDecipheriv, createHmac, hkdfSync, randomBytes, timingSafeEqual } from 'node:crypto';
import { secretTokenOf } from '../../core/secret-token.ts';
import type { Sql } from '../db/client.ts';

/** What a sealed secret is for; each purpose has its own key. */
export const SEAL_PURPOSES = ['totp', 'credential', 'signup', 'signing', 'agent', 'log', 'webhook', 'console'] as const;
export type SealPurpose = (typeof SEAL_PURPOSES)[number];

const MASTER_KEY_BYTES = 32;
const VERSION = 1;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;

/**
 * Seals what must be read again (second factors, target credentials) and derives what must be shown again.
 *
 * A sealed secret is version (1 byte) ‖ nonce (12) ‖ AES-256-GCM ciphertext ‖ tag (16). Its additional data is
 * version|account|purpose|subject, so it opens only where it was sealed. Keys come from the 32-byte master key with
 * HKDF-SHA256 (RFC 5869), one per use. Source: contract §1, NIST SP 800-38D.
 */
export class Custody {
  readonly #keys: Readonly<Record<SealPurpose, Buffer>>;
  readonly #escalationKey: Buffer;
  readonly #consumptionKey: Buffer;

  /** @throws RangeError where the key is not 32 bytes */
  constructor(masterKey: Buffer) {
    this.#keys = {
      totp: derive(masterKey, 'seal/totp'),
      credential: derive(masterKey, 'seal/credential'),
      signup: derive(masterKey, 'seal/signup'),
      signing: derive(masterKey, 'seal/signing'),
      agent: derive(masterKey, 'seal/agent'),
      log: derive(masterKey, 'seal/log'),
      webhook: derive(masterKey, 'seal/webhook'),
      console: derive(masterKey, 'seal/console'),
    };
    this.#escalationKey = derive(masterKey, 'escalation-token');
    this.#consumptionKey = derive(masterKey, 'consumption-token');
  }

  /** Seals `plaintext` for one subject of one account. */
  seal(accountId: string, purpose: SealPurpose, subjectId: string, plaintext: Buffer): Buffer {
    const nonce = randomBytes(NONCE_BYTES);
    const cipher = createCipheriv('aes-256-gcm', this.#keys[purpose], nonce, { authTagLength: TAG_BYTES });
    cipher.setAAD(additionalData(accountId, purpose, subjectId));
    const body = Buffer.concat([cipher.update(plaintext), cipher.final()]);
    return Buffer.concat([Buffer.of(VERSION), nonce, body, cipher.getAuthTag()]);
  }

  /** Opens what {@link seal} made for the very same account, purpose and subject; throws on anything else. */
  open(accountId: string, purpose: SealPurpose, subjectId: string, sealed: Buffer): Buffer {
    if (sealed.length < 1 + NONCE_BYTES + TAG_BYTES || sealed[0] !== VERSION) {
      throw new Error('a sealed secret has a form that this version does not know');
    }
    const nonce = sealed.subarray(1, 1 + NONCE_BYTES);
    const decipher = createDecipheriv('aes-256-gcm', this.#keys[purpose], nonce, { authTagLength: TAG_BYTES });
    decipher.setAAD(additionalData(accountId, purpose, subjectId));
    decipher.setAuthTag(sealed.subarray(-TAG_BYTES));
    return Buffer.concat([decipher.update(sealed.subarray(1 + NONCE_BYTES, -TAG_BYTES)), decipher.final()]);
  }

  /** The token of an escalation: the same whenever it is asked for, so that only its hash need be stored. */
  escalationToken(escalationId: string): string {
    return secretTokenOf('etk', createHmac('sha256', this.#escalationKey).update(escalationId).digest());
  }

  /** The consumption token of a receipt: the same whenever it is asked for, so that only its hash need be stored. */
  consumptionToken(receiptId: string): string {
    return secretTokenOf('ctk', createHmac('sha256', this.#consumptionKey).update(receiptId).digest());
  }
}

/**
 * Keeps a check value of the master key at the first start, and compares with it at every later one.
 *
 * @throws Error with one sentence for the operator where this database's secrets were sealed under another key
 */
export async function checkMasterKey(sql: Sql, masterKey: Buffer): Promise<void> {
  const check = createHmac('sha256', derive(masterKey, 'master-key-check')).update('mandate-gateway').digest();
  await sql`
    insert into installation (master_key_check, created_at) values (${check}, db_clock()) on conflict do nothing`;
  const [row] = await sql<{ master_key_check: Buffer }[]>`select master_key_check from installation`;
  if (row !== undefined && timingSafeEqual(row.master_key_check, check)) return;
  throw new Error(
    'The secrets in this database were sealed under another master key: set MANDATE_MASTER_KEY to the one ' +
      'that this database was first started with.',
  );
}

function derive(masterKey: Buffer, use: string): Buffer {
  if (masterKey.length !== MASTER_KEY_BYTES) throw new RangeError(`a master key has ${MASTER_KEY_BYTES} bytes`);
  return Buffer.from(hkdfSync('sha256', masterKey, Buffer.alloc(0), `mandate-gateway/${use}/v1`, 32));
}

function additionalData(accountId: string, purpose: SealPurpose, subjectId: string): Buffer {
  return Buffer.from(`${VERSION}|${accountId}|${purpose}|${subjectId}`, 'utf8');
}
