import { generateSecret, generateURI, verifySync } from 'otplib';

const ISSUER = 'Mandate Gateway';
const STEP_SECONDS = 30;
/** 160 bits, the length of the HMAC (RFC 4226 §4 R6). */
const SECRET_BYTES = 20;
const CODE = /^[0-9]{6}$/;
/** 128 bits are the least that RFC 4226 §4 allows; otplib takes at most 64 bytes. */
const SECRET = /^[A-Z2-7]{26,102}$/;

/** Makes the base32 secret of a new second factor. */
export function newTotpSecret(): string {
  return generateSecret({ length: SECRET_BYTES });
}

/** A secret that somebody brings along in its canonical spelling, or null where it is no base32 of 16 to 63 bytes. */
export function readTotpSecret(text: string): string | null {
  const secret = text.replaceAll(' ', '').replace(/=+$/, '').toUpperCase();
  return SECRET.test(secret) && matchTotpStep(secret, '000000', 0) !== 'unusable' ? secret : null;
}

/** The address that authenticator apps read from a QR code. */
export function otpauthUri(email: string, secret: string): string {
  return generateURI({ issuer: ISSUER, label: email, secret });
}

/**
 * The time step that `code` belongs to, within one step of `nowMs`, or null where it belongs to none of them.
 *
 * The caller refuses a step that is not after the last one used: a code works once. Source: RFC 6238 §5.2 (SHA-1,
 * 6 digits, 30 s).
 */
export function totpStep(secret: string, code: string, nowMs: number): number | null {
  const step = matchTotpStep(secret, code, nowMs);
  return step === 'unusable' ? null : step;
}

function matchTotpStep(secret: string, code: string, nowMs: number): number | null | 'unusable' {
  if (!CODE.test(code)) return null;
  try {
    const epoch = Math.floor(nowMs / 1000);
    // The tolerance is in seconds and must not reach before 1970, which otplib refuses.
    const epochTolerance: [number, number] = [Math.min(STEP_SECONDS, epoch), STEP_SECONDS];
    const result = verifySync({ secret, token: code, epoch, epochTolerance });
    return result.valid && 'timeStep' in result ? result.timeStep : null;
  } catch {
    return 'unusable';
  }
}
