import { randomBytes } from 'node:crypto';
import { secretHash } from '../../core/secret-token.ts';
import type { Sql } from '../db/client.ts';
import type { CommandContext } from '../decisions/command.ts';

/** Enough to lose a phone more than once; few enough to be printed and counted. */
export const RECOVERY_CODES = 10;
/** Crockford's alphabet: nothing in it is taken for something else. */
const ALPHABET = '0123456789abcdefghjkmnpqrstvwxyz';
/** 16 characters of 5 bits are 80 bits: nobody finds one from its SHA-256. */
const CODE_CHARACTERS = 16;
const GROUP_CHARACTERS = 4;
const CODE = new RegExp(`^[${ALPHABET}]{${CODE_CHARACTERS}}$`);

/** Makes an account's recovery codes within a command, in the place of those before; shown once, stored as hashes. */
export async function newRecoveryCodes({ sql, accountId, nowMs, append }: CommandContext): Promise<string[]> {
  const codes = Array.from({ length: RECOVERY_CODES }, newCode);
  const hashes = codes.map((code) => hashOf(accountId, code));
  await sql`delete from recovery_codes where account_id = ${accountId}`;
  await sql`
    insert into recovery_codes (account_id, code_hash, created_at)
    select ${accountId}, decode(h, 'hex'), ${nowMs} from unnest(${hashes}::text[]) as h`;
  append('account.recovery_codes', { count: codes.length });
  return codes.map(grouped);
}

/** The hash of a recovery code as somebody typed it, or null where the text is none. */
export function recoveryCodeHash(accountId: string, typed: string): string | null {
  const code = typed.replaceAll(/[\s-]/g, '').toLowerCase().replaceAll('o', '0').replaceAll(/[il]/g, '1');
  return CODE.test(code) ? hashOf(accountId, code) : null;
}

/** How many codes of an account still work. */
export async function countRecoveryCodes(sql: Sql, accountId: string): Promise<number> {
  const [row] = await sql<{ count: number }[]>`
    select count(*) as count from recovery_codes where account_id = ${accountId} and used_at is null`;
  return Number(row?.count ?? 0);
}

function newCode(): string {
  return Array.from(randomBytes(CODE_CHARACTERS), (byte) => ALPHABET[byte & 31]).join('');
}

function grouped(code: string): string {
  return (code.match(new RegExp(`.{${GROUP_CHARACTERS}}`, 'g')) ?? []).join('-');
}

function hashOf(accountId: string, code: string): string {
  return secretHash(`${accountId}|${code}`);
}
