import { z } from 'zod';
import { PASSWORD_MAX_CHARACTERS } from './password.ts';

/** RFC 5321 §4.5.3.1: an address has at most 254 characters. */
const EMAIL_MAX_CHARACTERS = 254;
/** Twice what a password may have: compatibility characters shrink when they are normalised. */
const PASSWORD_TEXT_MAX = PASSWORD_MAX_CHARACTERS * 2;
export const TOTP_SECRET_TEXT_MAX = 256;
export const SIGNUP_TOKEN_MAX = 2052;

/** Zod: an e-mail address, in lower case. */
export const emailInput = z
  .string('must be an e-mail address')
  .max(EMAIL_MAX_CHARACTERS, `must have at most ${EMAIL_MAX_CHARACTERS} characters`)
  .regex(/^[!-?A-~]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*$/, 'must be an e-mail address')
  .transform((text) => text.toLowerCase());
/** Zod: the text of a password; what one must be to be chosen is asked of `passwordProblem`. */
export const passwordInput = z.string('must be a string').max(PASSWORD_TEXT_MAX, 'is too long');
/** Zod: a code of an authenticator. */
export const totpCodeInput = z
  .string('must be a string')
  .regex(/^[0-9]{6}$/, 'must be the six digits that your authenticator shows');
