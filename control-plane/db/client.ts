import { createHmac, hash, pbkdf2Sync, randomBytes } from 'node:crypto';
import postgres from 'postgres';
import {
  DATABASE_CONNECT_TIMEOUT_S,
  DATABASE_POOL_CONNECTIONS,
  DATABASE_RECONNECT_MAX_S,
  IDLE_IN_TRANSACTION_TIMEOUT_MS,
  LOCK_TIMEOUT_MS,
  STATEMENT_TIMEOUT_MS,
} from '../../core/limits.ts';
import { errorCode } from './database-error.ts';

/** What PostgreSQL itself takes (`scram_iterations`, RFC 7677). */
const SCRAM_ITERATIONS = 4096;

const TYPES = {
  /** bigint: a number, refused where a number would not be exact. */
  bigint: { to: 20, from: [20], serialize: (value: number) => String(value), parse: exactInteger },
  /** date and timestamp, which are no moments: their text. */
  calendar: { to: 1082, from: [1082, 1114], serialize: (value: string) => value, parse: (text: string) => text },
  /** timestamptz: whole milliseconds since 1970, UTC. Takes those, a Date or an RFC 3339 string. */
  date: { to: 1184, from: [1184], serialize: serializeTime, parse: epochMilliseconds },
};

type SqlTypes = { bigint: number; calendar: string; date: number };

/** A pool of connections: a tagged template that runs one statement. bytea is a Buffer, date and numeric are text. */
export type Sql = postgres.Sql<SqlTypes>;

/** One transaction's connection. */
export type TransactionSql = postgres.TransactionSql<SqlTypes>;

export interface ConnectOptions {
  /** Connections at most; each is opened when it is first needed. */
  readonly max?: number;
  /** Shown in pg_stat_activity. */
  readonly applicationName: string;
  readonly statementTimeoutMs?: number;
  readonly lockTimeoutMs?: number;
  readonly idleInTransactionTimeoutMs?: number;
  /** Schemas that unqualified names are looked up in. */
  readonly searchPath?: string;
  /** Told of every connection that closed, before any later statement can go out on a new one. */
  readonly onClose?: () => void;
  /** Further session settings of PostgreSQL. */
  readonly settings?: Readonly<Record<string, string>>;
  /** Keeps a connection for as long as it works instead of replacing it after a while. */
  readonly keepConnections?: boolean;
}

/**
 * Opens a pool on a `postgres://` URL; `?host=/directory` names a unix socket's directory, as libpq has it.
 *
 * Nothing is connected yet. A lost connection fails the statements in flight and is opened again by the next one.
 * Every session has its time-outs from its first statement on. End it with `sql.end()`.
 */
export function connect(url: string, options: ConnectOptions): Sql {
  const target = new URL(url);
  const socketDirectory = target.searchParams.get('host');
  target.searchParams.delete('host');
  return postgres(target.href, {
    ...(socketDirectory === null ? {} : { path: `${socketDirectory}/.s.PGSQL.${target.port || '5432'}` }),
    max: options.max ?? DATABASE_POOL_CONNECTIONS,
    connect_timeout: DATABASE_CONNECT_TIMEOUT_S,
    backoff: (retries: number) => Math.min(2 ** retries / 100, DATABASE_RECONNECT_MAX_S),
    types: TYPES,
    onnotice: () => {},
    ...(options.onClose === undefined ? {} : { onclose: options.onClose }),
    ...(options.keepConnections ? { max_lifetime: null } : {}),
    connection: {
      application_name: options.applicationName,
      statement_timeout: options.statementTimeoutMs ?? STATEMENT_TIMEOUT_MS,
      lock_timeout: options.lockTimeoutMs ?? LOCK_TIMEOUT_MS,
      idle_in_transaction_session_timeout: options.idleInTransactionTimeoutMs ?? IDLE_IN_TRANSACTION_TIMEOUT_MS,
      TimeZone: 'UTC',
      DateStyle: 'ISO',
      ...(options.searchPath === undefined ? {} : { search_path: options.searchPath }),
      ...options.settings,
    },
  });
}

/** The same server and database for another role. */
export function withRole(url: string, role: string, password: string): string {
  const target = new URL(url);
  target.username = encodeURIComponent(role);
  target.password = encodeURIComponent(password);
  return target.href;
}

/** Errors of a connection that could not be made, was lost, or belongs to a server that is starting or stopping. */
const UNAVAILABLE = new Set([
  ...['CONNECTION_CLOSED', 'CONNECTION_ENDED', 'CONNECTION_DESTROYED', 'CONNECT_TIMEOUT'],
  ...['ECONNREFUSED', 'ECONNRESET', 'EPIPE', 'ENOENT', 'ENOTFOUND', 'EAI_AGAIN', 'ETIMEDOUT', 'EHOSTUNREACH'],
  ...['57P01', '57P02', '57P03', '53300', '08000', '08001', '08003', '08004', '08006', '25006'],
]);

/** Whether an error means that the database is away for now, as opposed to a statement that it refused. */
export function isUnavailable(error: unknown): boolean {
  if (error instanceof AggregateError) return error.errors.some(isUnavailable);
  return UNAVAILABLE.has(errorCode(error));
}

/**
 * Derives what PostgreSQL stores of a password (RFC 5803, SCRAM-SHA-256), so that the password itself never travels
 * in a statement. The text holds no quote.
 */
export function scramVerifier(password: string, iterations = SCRAM_ITERATIONS): string {
  const salt = randomBytes(16);
  const salted = pbkdf2Sync(password.normalize('NFKC'), salt, iterations, 32, 'sha256');
  const clientKey = createHmac('sha256', salted).update('Client Key').digest();
  const serverKey = createHmac('sha256', salted).update('Server Key').digest('base64');
  const storedKey = hash('sha256', clientKey, 'base64');
  return `SCRAM-SHA-256$${iterations}:${salt.toString('base64')}$${storedKey}:${serverKey}`;
}

function exactInteger(text: string): number {
  const value = Number(text);
  if (Number.isSafeInteger(value)) return value;
  throw new RangeError(`bigint ${text} is not an exact number`);
}

function epochMilliseconds(text: string): number {
  // PostgreSQL writes 2026-01-31 09:05:00.123+00 (UTC, since every session sets its time zone).
  const value = Date.parse(`${text.slice(0, 10)}T${text.slice(11).replace(/\+00$/, 'Z')}`);
  if (Number.isSafeInteger(value)) return value;
  throw new RangeError(`timestamptz ${text} cannot be represented in milliseconds`);
}

function serializeTime(value: number | string | Date): string {
  if (value instanceof Date || typeof value === 'number' || typeof value === 'string')
    return new Date(value).toISOString();
  throw new TypeError('a timestamptz parameter is a number of milliseconds, a Date or an RFC 3339 string');
}
