import { type DestinationStream, type Logger, pino } from 'pino';

export type { Logger } from 'pino';

/** Member names whose values are never written, wherever they are in a log line up to three levels deep. */
const SECRET_MEMBERS = [
  'authorization',
  'cookie',
  'credential',
  'credentials',
  'escalation_token',
  'internal_secret',
  'internalSecret',
  'master_key',
  'masterKey',
  'password',
  'secret',
  'signup_token',
  'token',
  'totp',
  'totp_code',
  'totp_secret',
  'databaseUrl',
  'databaseAppUrl',
  'smtpUrl',
  'connectionString',
];

/** Header names that carry secrets. */
const SECRET_HEADERS = [
  'proxy-authorization',
  'set-cookie',
  'x-api-key',
  'x-mandate-internal-secret',
  'x-service-escalation-token',
];

const CENSOR = '[redacted]';

function redactedPaths(): string[] {
  const names = [...SECRET_MEMBERS.map((name) => `.${name}`), ...SECRET_HEADERS.map((name) => `["${name}"]`)];
  const deep = names.flatMap((name) => [name, `*${name}`, `*.*${name}`]);
  return deep.map((path) => path.replace(/^\./, ''));
}

/** A bearer secret of ours, or a password in a URL, inside of any text. */
const SECRET_TEXT = /\b(?:mak|gwt|ctk|etk|ags|ses|whsec)_[A-Za-z0-9_+/-]{20,}|(?<=:\/\/[^\s:/@]{0,256}:)[^\s@/]+(?=@)/g;

/** The text with bearer secrets and passwords in URLs taken out. */
export function withoutSecrets(text: string): string {
  return text.replaceAll(SECRET_TEXT, CENSOR);
}

interface ErrorLine {
  readonly type: string;
  readonly message: string;
  readonly code: string | undefined;
  readonly stack: string | undefined;
  readonly cause: ErrorLine | undefined;
}

const CAUSES_MAX = 5;

/** An error as it is logged: no enumerable members of it (drivers put statements and parameters there). */
function errorLine(error: unknown, depth = 0): ErrorLine {
  const known = error instanceof Error ? error : new Error(String(error));
  const code = 'code' in known && typeof known.code === 'string' ? known.code : undefined;
  const more = known.cause !== undefined && depth < CAUSES_MAX;
  return {
    type: known.name,
    message: withoutSecrets(known.message),
    code,
    stack: known.stack === undefined ? undefined : withoutSecrets(known.stack),
    cause: more ? errorLine(known.cause, depth + 1) : undefined,
  };
}

/**
 * Makes the logger of a process: JSON lines on standard output, RFC 3339 times, `name` as the process.
 *
 * Secrets are taken out three ways: members by their name, errors reduced to type, message, code and stack, and bearer
 * secrets found in messages. Control characters are escaped by JSON. Request ids belong under `request_id`.
 */
export function createLogger(options: {
  readonly name: string;
  readonly level: string;
  readonly destination?: DestinationStream;
}): Logger {
  const settings = {
    name: options.name,
    level: options.level,
    base: { name: options.name, pid: process.pid },
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: (label: string) => ({ level: label }) },
    redact: { paths: redactedPaths(), censor: CENSOR },
    serializers: { err: (error: unknown) => errorLine(error), error: (error: unknown) => errorLine(error) },
    hooks: {
      logMethod(this: Logger, args: Parameters<Logger['info']>, method: (...a: Parameters<Logger['info']>) => void) {
        const cleaned = args.map((arg: unknown) => (typeof arg === 'string' ? withoutSecrets(arg) : arg));
        method.apply(this, cleaned as Parameters<Logger['info']>);
      },
    },
  };
  return options.destination === undefined ? pino(settings) : pino(settings, options.destination);
}
