import { newSecretToken, sameHash, secretHash } from '../../core/secret-token.ts';
import { newTypeId } from '../../core/type-id.ts';
import type { Sql } from '../db/client.ts';
import type { CommandContext } from '../decisions/command.ts';

/** A working day: after it the person shows both factors again. */
export const SESSION_LIFE_MS = 12 * 60 * 60_000;
/** Sessions an account may have at once; the oldest end first. */
export const SESSIONS_MAX = 32;

/** A signed-in person. */
export interface Session {
  readonly accountId: string;
  readonly sessionId: string;
}

/** What a sign-in answers. */
export interface SessionAnswer {
  readonly account_id: string;
  readonly token: string;
  readonly expires_at: string;
}

/** Makes a session within a command that has checked both factors; its token is in the answer and nowhere else. */
export async function createSession(context: CommandContext): Promise<SessionAnswer> {
  const { sql, accountId, nowMs } = context;
  await forgetSessions(context);
  const sessionId = newTypeId('ses', nowMs);
  const token = newSecretToken('ses');
  const tokenHash = Buffer.from(secretHash(token), 'hex');
  const expiresMs = nowMs + SESSION_LIFE_MS;
  await sql`
    insert into sessions (account_id, session_id, token_hash, created_at, last_seen_at, expires_at)
    values (${accountId}, ${sessionId}, ${tokenHash}, ${nowMs}, ${nowMs}, ${expiresMs})`;
  await sql`
    insert into token_routes (token_hash, kind, account_id, subject_id)
    values (${tokenHash}, 'session', ${accountId}, ${sessionId})`;
  const expiresAt = new Date(expiresMs).toISOString();
  context.append('session.created', { session_id: sessionId, expires_at: expiresAt });
  return { account_id: accountId, token, expires_at: expiresAt };
}

/** The live session of a token, or null: unknown, ended and expired are one. */
export async function findSession(sql: Sql, token: string): Promise<Session | null> {
  const tokenHash = secretHash(token);
  const [row] = await sql<{ account_id: string; session_id: string; hash: string }[]>`
    select s.account_id, s.session_id, encode(s.token_hash, 'hex') as hash
    from token_routes r join sessions s on s.account_id = r.account_id and s.session_id = r.subject_id
    where r.token_hash = decode(${tokenHash}, 'hex') and r.kind = 'session'
      and s.revoked_at is null and s.expires_at > db_clock()`;
  if (row === undefined || !sameHash(row.hash, tokenHash)) return null;
  return { accountId: row.account_id, sessionId: row.session_id };
}

/** Ends a session; ending it twice changes nothing. */
export async function revokeSession({ sql, accountId, nowMs, append }: CommandContext, id: string): Promise<void> {
  const rows = await sql`
    update sessions set revoked_at = ${nowMs}
    where account_id = ${accountId} and session_id = ${id} and revoked_at is null
    returning session_id`;
  if (rows.length > 0) append('session.revoked', { session_id: id, reason: 'signed_out' });
}

/** Removes the account's dead sessions, and the oldest live ones where a new one would be too many. */
async function forgetSessions({ sql, accountId, nowMs }: CommandContext): Promise<void> {
  await sql`
    with gone as (
      delete from sessions where account_id = ${accountId} and (
        revoked_at is not null or expires_at <= ${nowMs} or session_id in (
          select session_id from sessions
          where account_id = ${accountId} and revoked_at is null and expires_at > ${nowMs}
          order by session_id desc offset ${SESSIONS_MAX - 1}::bigint))
      returning token_hash)
    delete from token_routes where token_hash in (select token_hash from gone)`;
}
