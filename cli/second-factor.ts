import { setTimeout as delay } from 'node:timers/promises';
import { usageError } from './cli-error.ts';

const STEP_MS = 30_000;
const POLL_MS = 250;

/**
 * The TOTP code (RFC 6238, SHA-1, 6 digits, 30 s) of a base32 secret now; with `not`, waits until another one is due.
 *
 * @throws CliError (usage) where the secret is no base32 of at least 16 bytes
 */
export async function freshCode(secret: string, not?: string): Promise<string> {
  const { generateSync } = await import('otplib');
  const code = (): string => {
    try {
      return generateSync({ secret: secret.replaceAll(' ', '').toUpperCase() });
    } catch {
      throw usageError('--totp-secret must be base32 (A-Z and 2-7) of at least 16 bytes.');
    }
  };
  for (const end = Date.now() + STEP_MS + POLL_MS; not !== undefined && code() === not && Date.now() < end; ) {
    await delay(POLL_MS);
  }
  return code();
}

/** A QR code of an otpauth URI, drawn with block characters. */
export async function otpauthQr(uri: string): Promise<string> {
  const { default: qrcode } = await import('qrcode');
  return qrcode.toString(uri, { type: 'utf8', errorCorrectionLevel: 'L' });
}
