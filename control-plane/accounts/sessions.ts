import { newSecretToken, sameHash, secretHash } from '../../core/secret-token.ts';
import { newTypeId } from '../../core/type-id.ts';
import type { Sql } from '../db/client.ts';
import type { CommandContext } from '../decisions/command.ts';

/** A working day: after it the person shows both factors again. */
export const SESSION_LIFE_MS = 12 * 60 * 60_000;
/** A browser that nobody touched for this long may be one that somebody left. */
export const CONSOLE_IDLE_MS = 60 * 60_000;
/** How long a second factor counts as fresh for what must not happen in a session that somebody left open. */
export const FRESH_FACTOR_MS = 5 * 60_000;
/** Sessions an account may have at once; the oldest end first. */
export const SESSIONS_MAX = 32;
/** What a browser says about itself is cut here: it is shown to its owner in a list. */
const USER_AGENT_MAX_CHARACTERS = 200;
/** A session's last use is written at most this often. */
const SEEN_EVERY_MS = 60_000;

/** Where a session is used: a bearer token of the CLI, or a cookie of the console. Neither opens the other's door. */
export type SessionKind = 'cli' | 'console';

/** Who asks for a session. */
export interface SessionOrigin {
  readonly kind: SessionKind;
  readonly userAgent: string | null;
}

/** The CLI says nothing about itself. */
export const CLI_ORIGIN: SessionOrigin = { kind: 'cli', userAgent: null };

/** A signed-in person. */
export interface Session {
  readonly accountId: string;
  readonly sessionId: string;
}

/** A session as a request found it; times in milliseconds of the database's clock. */
export interface LiveSession extends Session {
  /** When this session last showed a second factor. */
  readonly factorMs: number;
  readonly nowMs: number;
}

/** A signed-in person at the console. */
export interface ConsoleSession extends LiveSession {
  readonly email: string;
}

/** What a sign-in answers. */
export interface SessionAnswer {
  readonly account_id: string;
  readonly token: string;
  readonly expires_at: string;
}

/** A session as its owner sees it; times in Unix milliseconds. */
export interface SessionRecord {
  readonly session_id: string;
  readonly kind: SessionKind;
  readonly user_agent: string | null;
  readonly created_at: number;
  readonly last_seen_at: number;
  readonly expires_at: number;
}

/** Makes a session within a command that has checked both factors; its token is in the answer and nowhere else. */
export async function createSession(
  context: CommandContext,
  origin: SessionOrigin = CLI_ORIGIN,
): Promise<SessionAnswer> {
  const { sql, accountId, nowMs } = context;
  await forgetSessions(context);
  const sessionId = newTypeId('ses', nowMs);
  const token = newSecretToken('ses');
  const tokenHash = Buffer.from(secretHash(token), 'hex');
  const expiresMs = nowMs + SESSION_LIFE_MS;
  await sql`
    insert into sessions
      (account_id, session_id, token_hash, created_at, last_seen_at, expires_at, kind, user_agent, factor_at)
    values (${accountId}, ${sessionId}, ${tokenHash}, ${nowMs}, ${nowMs}, ${expiresMs}, ${origin.kind},
      ${shownAgent(origin.userAgent)}, ${nowMs})`;
  await routeToken(context, sessionId, tokenHash);
  const expiresAt = new Date(expiresMs).toISOString();
  context.append('session.created', { session_id: sessionId, kind: origin.kind, expires_at: expiresAt });
  return { account_id: accountId, token, expires_at: expiresAt };
}

/** The live session of a bearer token, or null: unknown, ended, expired and a browser's are one. */
export async function findSession(sql: Sql, token: string): Promise<LiveSession | null> {
  const tokenHash = secretHash(token);
  const [row] = await sql<{ account_id: string; session_id: string; hash: string; factor: number; now: number }[]>`
    select s.account_id, s.session_id, encode(s.token_hash, 'hex') as hash, epoch_ms(s.factor_at) as factor,
      epoch_ms(db_clock()) as now
    from token_routes r join sessions s on s.account_id = r.account_id and s.session_id = r.subject_id
    where r.token_hash = decode(${tokenHash}, 'hex') and r.kind = 'session' and s.kind = 'cli'
      and s.revoked_at is null and s.expires_at > db_clock()`;
  if (row === undefined || !sameHash(row.hash, tokenHash)) return null;
  return { accountId: row.account_id, sessionId: row.session_id, factorMs: row.factor, nowMs: row.now };
}

/** The live console session of a cookie's token, or null: unknown, ended, expired, idle for too long and the CLI's. */
export async function findConsoleSession(sql: Sql, token: string): Promise<ConsoleSession | null> {
  const tokenHash = secretHash(token);
  const [row] = await sql<
    { account_id: string; session_id: string; hash: string; email: string; factor: number; seen: number; now: number }[]
  >`
    select s.account_id, s.session_id, encode(s.token_hash, 'hex') as hash, a.email, epoch_ms(s.factor_at) as factor,
      epoch_ms(s.last_seen_at) as seen, epoch_ms(db_clock()) as now
    from token_routes r join sessions s on s.account_id = r.account_id and s.session_id = r.subject_id
      join accounts a on a.account_id = s.account_id
    where r.token_hash = decode(${tokenHash}, 'hex') and r.kind = 'session' and s.kind = 'console'
      and s.revoked_at is null and s.expires_at > db_clock()`;
  if (row === undefined || !sameHash(row.hash, tokenHash) || row.now - row.seen > CONSOLE_IDLE_MS) return null;
  const { account_id: accountId, session_id: sessionId, email, factor: factorMs, now: nowMs } = row;
  if (nowMs - row.seen > SEEN_EVERY_MS) {
    await sql`
      update sessions set last_seen_at = db_clock() where account_id = ${accountId} and session_id = ${sessionId}`;
  }
  return { accountId, sessionId, email, factorMs, nowMs };
}

/** The live sessions of an account, the one used last first. */
export async function readSessions(sql: Sql, accountId: string): Promise<SessionRecord[]> {
  return sql<SessionRecord[]>`
    select session_id, kind, user_agent, epoch_ms(created_at) as created_at, epoch_ms(last_seen_at) as last_seen_at,
      epoch_ms(expires_at) as expires_at
    from sessions where account_id = ${accountId} and revoked_at is null and expires_at > db_clock()
      and (kind = 'cli' or last_seen_at >= db_clock() - ${CONSOLE_IDLE_MS}::bigint * interval '1 millisecond')
    order by last_seen_at desc, session_id desc limit ${SESSIONS_MAX}`;
}

/**
 * Gives a session that has just shown a second factor a new token within a command; the old one is worth nothing from
 * its commit on.
 */
export async function renewSession(context: CommandContext, sessionId: string): Promise<string | null> {
  const { sql, accountId, nowMs } = context;
  const token = newSecretToken('ses');
  const tokenHash = Buffer.from(secretHash(token), 'hex');
  const [before] = await sql<{ token_hash: Buffer }[]>`
    select token_hash from sessions
    where account_id = ${accountId} and session_id = ${sessionId} and revoked_at is null and expires_at > ${nowMs}`;
  if (before === undefined) return null;
  await sql`
    update sessions set token_hash = ${tokenHash}, factor_at = ${nowMs}, last_seen_at = ${nowMs}
    where account_id = ${accountId} and session_id = ${sessionId}`;
  await sql`delete from token_routes where token_hash = ${before.token_hash}`;
  await routeToken(context, sessionId, tokenHash);
  return token;
}

/** Why a session was ended by its owner. */
export type RevocationReason =
  | 'signed_out'
  | 'signed_out_everywhere'
  | 'revoked'
  | 'password_changed'
  | 'second_factor_changed';

/** Ends a session; ending it twice changes nothing. Returns whether it was live. */
export async function revokeSession(
  { sql, accountId, nowMs, append }: CommandContext,
  id: string,
  reason: RevocationReason = 'signed_out',
): Promise<boolean> {
  const rows = await sql`
    update sessions set revoked_at = ${nowMs}
    where account_id = ${accountId} and session_id = ${id} and revoked_at is null
    returning session_id`;
  if (rows.length > 0) append('session.revoked', { session_id: id, reason });
  return rows.length > 0;
}

/** Ends every session of the account but the one of `except`; returns how many. */
export async function revokeSessions(
  { sql, accountId, nowMs, append }: CommandContext,
  except: string | null,
  reason: RevocationReason,
): Promise<number> {
  const rows = await sql<{ session_id: string }[]>`
    update sessions set revoked_at = ${nowMs}
    where account_id = ${accountId} and revoked_at is null and session_id is distinct from ${except}
    returning session_id`;
  for (const { session_id } of rows) append('session.revoked', { session_id, reason });
  return rows.length;
}

async function routeToken({ sql, accountId }: CommandContext, sessionId: string, tokenHash: Buffer): Promise<void> {
  await sql`
    insert into token_routes (token_hash, kind, account_id, subject_id)
    values (${tokenHash}, 'session', ${accountId}, ${sessionId})`;
}

/** Visible ASCII and spaces: nothing else is in the name of a browser. */
function shownAgent(text: string | null): string | null {
  return text === null ? null : text.replaceAll(/[^ -~]/g, '?').slice(0, USER_AGENT_MAX_CHARACTERS);
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
