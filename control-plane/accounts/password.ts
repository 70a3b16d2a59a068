import { randomBytes, type ScryptOptions, scrypt, timingSafeEqual } from 'node:crypto';
import { ProblemError } from '../../core/errors.ts';

/** NIST SP 800-63B-4 §3.1.1 asks for 15 where a password stands alone and 8 beside a second factor. */
export const PASSWORD_MIN_CHARACTERS = 12;
/** Long enough for any passphrase, short enough to hash without thought. */
export const PASSWORD_MAX_CHARACTERS = 256;

const COST = 2 ** 15;
const BLOCK_SIZE = 8;
const PARALLELISM = 1;
const KEY_BYTES = 32;
const SALT_BYTES = 16;
/** Parameters beyond these in a stored hash were not written by us: 128 MiB and 4 lanes. */
const COST_LOG2_MAX = 17;
const PARALLELISM_MAX = 4;
/** Hashes that may wait or run at once, each for about a tenth of a second. */
const HASHES_MAX = 32;
/** Those that run: each holds 32 MiB and one of the four threads, which signatures and look-ups need too. */
const HASHES_RUNNING_MAX = 2;

const HASH = /^scrypt\$ln=([0-9]{1,2}),r=([0-9]{1,2}),p=([0-9]{1,2})\$([A-Za-z0-9_-]{22})\$([A-Za-z0-9_-]{43})$/;

/** A hash that no password has: verified where there is no account, so that both cases take the same time. */
const NOBODY = `scrypt$ln=15,r=${BLOCK_SIZE},p=${PARALLELISM}$${'A'.repeat(22)}$${'A'.repeat(43)}`;

/**
 * Hashes a password: `scrypt$ln=15,r=8,p=1$salt$key`, salt and key in base64url (RFC 7914).
 *
 * @throws ProblemError 503 `overloaded` where too many are being hashed
 */
export async function hashPassword(password: string): Promise<string> {
  const salt = randomBytes(SALT_BYTES);
  const key = await derive(password, salt, { N: COST, r: BLOCK_SIZE, p: PARALLELISM });
  const parameters = `ln=${Math.log2(COST)},r=${BLOCK_SIZE},p=${PARALLELISM}`;
  return `scrypt$${parameters}$${salt.toString('base64url')}$${key.toString('base64url')}`;
}

/**
 * Whether a password has this hash; with null (nobody by that name) the same work is done and the answer is no.
 *
 * @throws ProblemError 503 `overloaded` where too many are being hashed; Error where the stored text is no hash of ours
 */
export async function verifyPassword(password: string, stored: string | null): Promise<boolean> {
  const [, cost, r, p, salt = '', key = ''] = HASH.exec(stored ?? NOBODY) ?? [];
  if (Number(cost) > COST_LOG2_MAX || Number(r) > BLOCK_SIZE || Number(p) > PARALLELISM_MAX || key === '') {
    throw new Error('a stored password hash has a form that this version does not know');
  }
  const expected = Buffer.from(key, 'base64url');
  const options = { N: 2 ** Number(cost), r: Number(r), p: Number(p) };
  const same = timingSafeEqual(await derive(password, Buffer.from(salt, 'base64url'), options), expected);
  return same && stored !== null;
}

const WEAKNESSES = {
  short: `must have at least ${PASSWORD_MIN_CHARACTERS} characters`,
  long: `must have at most ${PASSWORD_MAX_CHARACTERS} characters`,
  ownAddress: 'must not be your e-mail address',
  common: 'is one of those that are tried first; choose another',
} as const;
export type PasswordWeakness = keyof typeof WEAKNESSES;

/** Why a password cannot be chosen, in words, or null where it can. */
export function passwordProblem(password: string, email: string): string | null {
  const weakness = passwordWeakness(password, email);
  return weakness === null ? null : WEAKNESSES[weakness];
}

/** The same as a code. */
export function passwordWeakness(password: string, email: string): PasswordWeakness | null {
  const characters = [...password.normalize('NFKC')];
  if (characters.length < PASSWORD_MIN_CHARACTERS) return 'short';
  if (characters.length > PASSWORD_MAX_CHARACTERS) return 'long';
  const folded = password.normalize('NFKC').toLowerCase();
  const name = email.slice(0, email.lastIndexOf('@')).toLowerCase();
  if (folded === email.toLowerCase() || folded === name) return 'ownAddress';
  if (new Set(characters).size < 4 || COMMON.has(folded)) return 'common';
  return null;
}

let asked = 0;
let running = 0;
const waiting: (() => void)[] = [];

async function derive(password: string, salt: Buffer, options: ScryptOptions): Promise<Buffer> {
  if (asked >= HASHES_MAX) {
    throw new ProblemError('overloaded', 'Too many people sign in at once; try again.', { retryAfterSeconds: 1 });
  }
  asked += 1;
  try {
    if (running >= HASHES_RUNNING_MAX) await new Promise<void>((resolve) => waiting.push(resolve));
    else running += 1;
    try {
      return await scryptKey(password, salt, options);
    } finally {
      // The place is handed on, so that nobody overtakes who waits.
      const next = waiting.shift();
      if (next === undefined) running -= 1;
      else next();
    }
  } finally {
    asked -= 1;
  }
}

function scryptKey(password: string, salt: Buffer, options: ScryptOptions): Promise<Buffer> {
  const maxmem = 256 * (options.N ?? COST) * (options.r ?? BLOCK_SIZE);
  return new Promise((resolve, reject) => {
    scrypt(password.normalize('NFKC'), salt, KEY_BYTES, { ...options, maxmem }, (error, key) =>
      error === null ? resolve(key) : reject(error),
    );
  });
}

/** The most used passwords of at least twelve characters (public breach statistics). */
const COMMON: ReadonlySet<string> = new Set(
  `123456789012 1234567890123 12345678901234 123456789012345 1234567890123456 123123123123 1234qwer1234
  1q2w3e4r5t6y 1q2w3e4r5t6y7u 1q2w3e4r5t6y7u8i 1qaz2wsx3edc 1qaz2wsx3edc4rfv 1qazxsw23edc 123qweasdzxc 123456qwerty
  123456abcdef 123456789abc 12345qwertyui 123abc123abc 147258369147 0987654321qwe 098765432100 abcdefghijkl
  abcdefghijklm abcdefghijklmnop abcd12345678 abcdef123456 abc123abc123 abc123456789 admin1234567 admin123456789
  administrator administrator1 adminadmin12 adminadminadmin asdfasdfasdf asdfghjkl123 asdfghjklqwe asdfghjkl;'\\
  changeme1234 changemeplease computer1234 correcthorsebatterystaple dragon123456
  football1234 iloveyou1234 iloveyou12345 iloveyouforever iloveyousomuch letmein12345 letmeinletmein letmeinplease
  liverpool123 loveyou12345 manchester1 manchesterunited master123456 mypassword12 mypassword123 mypassword1234
  p@ssw0rd1234 p@ssword1234 p@ssword12345 passpasspass passw0rd1234 password!123 password1234 password12345
  password123456
  password1234567 password12345678 password123456789 password2023 password2024 password2025 password2026
  passwordpassword princess1234 q1w2e3r4t5y6 q1w2e3r4t5y6u7 qazwsxedcrfv qazwsxedc123 qweasdzxc123 qweqweqweqwe
  qwer1234qwer qwerasdfzxcv qwerty123456 qwerty1234567 qwerty12345678 qwerty123456789 qwertyqwerty qwertyuiop12
  qwertyuiop123 qwertyuiop1234 qwertyuiop[] qwertyuiopas qwertyuiopasdf qwertyuiopasdfghjkl secret123456
  secretsecret starwars1234 sunshine1234 superman1234 testtesttest test12345678 test123456789 trustno1trustno1
  unknownpassword welcome12345 welcome123456 welcomewelcome whatever1234 zaq12wsxcde3 zaq1xsw2cde3 zxcvbnm12345
  zxcvbnm123456 zxcvbnmasdfg zxcvbnm,./123`.split(/\s+/),
);
