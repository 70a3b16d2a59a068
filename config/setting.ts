import { z } from 'zod';
import { NOTE_SIGNATURE, readVerifierKey, type VerifierKey } from '../core/signed-note.ts';

/** The processes that settings belong to. */
export const PROCESSES = ['up', 'control-plane', 'proxy', 'migrate', 'cli'] as const;
export type ProcessName = (typeof PROCESSES)[number];

/**
 * One setting: the variable it is read from, how its text is read, and what stands where nothing is given.
 *
 * `fallback` is text that is read like a given value; null means that the setting is then null. A `secret` is never
 * printed, not even in part; with `fromFile`, `<env>_FILE` may name a file that holds it instead.
 */
export interface Setting<T, F extends string | null> {
  readonly env: string;
  readonly schema: z.ZodType<T, string>;
  readonly expects: string;
  readonly unit: string;
  readonly fallback: F;
  readonly meaning: string;
  readonly usedBy: readonly ProcessName[];
  readonly secret: boolean;
  readonly fromFile: boolean;
}

/** How a kind of value is read, and how it is named in errors and in the table. */
export interface Kind<T> {
  readonly schema: z.ZodType<T, string>;
  readonly expects: string;
  readonly unit: string;
}

const PORT_MAX = 65_535;

/** A whole number within bounds (both included), written in plain digits. */
export function wholeNumber(min: number, max: number, unit: string): Kind<number> {
  const schema = z
    .string()
    .regex(/^(0|[1-9][0-9]{0,15})$/)
    .transform(Number)
    .pipe(z.number().int().min(min).max(max));
  return { schema, expects: `a whole number from ${min} to ${max}`, unit };
}

/** A TCP port; 0 lets the system choose one. */
export const port: Kind<number> = { ...wholeNumber(0, PORT_MAX, 'TCP port'), unit: 'TCP port' };

export const flag: Kind<boolean> = {
  schema: z.enum(['true', 'false']).transform((text) => text === 'true'),
  expects: 'true or false',
  unit: '',
};

export const text: Kind<string> = { schema: z.string().min(1), expects: 'text', unit: '' };

export const path: Kind<string> = {
  schema: z.string().min(1).max(4096).refine(noControls),
  expects: 'a path',
  unit: 'path',
};

/** A name or address to bind, without scheme or port. */
export const host: Kind<string> = {
  schema: z.string().regex(/^[A-Za-z0-9.:_-]{1,253}$/),
  expects: 'a host name or an IP address, without scheme or port',
  unit: 'host',
};

/** One of a few words. */
export function oneOf<const W extends readonly [string, ...string[]]>(words: W): Kind<W[number]> {
  return { schema: z.enum(words), expects: `one of ${words.join(', ')}`, unit: '' };
}

/** An absolute URL of one of these schemes (with colon), kept as it was written but for a slash at its end. */
export function url(...schemes: string[]): Kind<string> {
  return {
    schema: z
      .string()
      .refine((value) => hasScheme(value, schemes))
      .transform((value) => value.replace(/\/+$/, '')),
    expects: `a URL that begins with ${schemes.map((scheme) => `${scheme}//`).join(' or ')}`,
    unit: 'URL',
  };
}

const LIST_MAX = 16;

/** Absolute HTTP URLs without user, query and fragment, comma-separated; a slash at the end is left away. */
export const urlList: Kind<readonly string[]> = {
  schema: z
    .string()
    .transform((value) => value.split(',').map((part) => part.trim().replace(/\/+$/, '')))
    .pipe(z.array(z.string().refine(isPrefix)).min(1).max(LIST_MAX)),
  expects: `a comma-separated list of at most ${LIST_MAX} URLs (http:// or https://) without user, query and fragment`,
  unit: 'URLs',
};

/** Verifier keys of witnesses (C2SP signed-note vkeys of type 0x04), comma-separated. */
export const witnessKeyList: Kind<readonly VerifierKey[]> = {
  schema: z
    .string()
    .transform((value) => value.split(',').map((part) => readVerifierKey(part.trim())))
    .pipe(z.array(z.custom<VerifierKey>(isWitnessKey)).min(1).max(LIST_MAX)),
  expects: `a comma-separated list of at most ${LIST_MAX} verifier keys (name+id+base64) of cosignature type`,
  unit: 'keys',
};

function isWitnessKey(key: unknown): boolean {
  return typeof key === 'object' && key !== null && 'type' in key && key.type === NOTE_SIGNATURE.cosignature;
}

function isPrefix(value: string): boolean {
  if (!hasScheme(value, ['http:', 'https:'])) return false;
  const { username, password, search, hash } = new URL(value);
  return [username, password, search, hash].every((part) => part === '');
}

/** `redis://` or `rediss://` (TLS), with user, password and the number of a database where there are any. */
export const redisUrl: Kind<string> = {
  schema: z.string().refine((value) => {
    if (!hasScheme(value, ['redis:', 'rediss:'])) return false;
    const { hostname, pathname, search, hash } = new URL(value);
    return hostname !== '' && search === '' && hash === '' && /^(\/[0-9]{0,5})?$/.test(pathname);
  }),
  expects: 'redis://[user:password@]host[:port][/database] or rediss://…',
  unit: 'URL',
};

/** `smtp://` (STARTTLS) or `smtps://` (TLS), with user and password where the server wants them. */
export const smtpUrl: Kind<string> = {
  schema: z.string().refine((value) => {
    if (!hasScheme(value, ['smtp:', 'smtps:'])) return false;
    const { hostname, pathname, search, hash, username, password } = new URL(value);
    if ((username === '') !== (password === '')) return false;
    return hostname !== '' && (pathname === '' || pathname === '/') && search === '' && hash === '';
  }),
  expects: 'smtp://[user:password@]host[:port] or smtps://…',
  unit: 'URL',
};

/** A sender of e-mail: an address, or `Name <address>`. */
export const mailbox: Kind<string> = {
  schema: z
    .string()
    .max(320)
    .regex(/^(?:[^<>\p{Cc}]*<[^\s<>@,;]+@[^\s<>@,;]+>|[^\s<>@,;]+@[^\s<>@,;]+)$/u),
  expects: 'an address or Name <address>',
  unit: 'e-mail',
};

/** Where control planes listen for proxies: `http(s)://host:port` or `unix:/path`, comma-separated. */
export const addressList: Kind<readonly string[]> = {
  schema: z
    .string()
    .transform((value) => value.split(',').map((part) => part.trim().replace(/\/+$/, '')))
    .pipe(z.array(z.string().refine(isLinkAddress)).min(1).max(64)),
  expects: 'a comma-separated list of http://host:port, https://host:port or unix:/path',
  unit: 'addresses',
};

/** 32 bytes in hex (64 characters) or base64. */
export const key32: Kind<Buffer> = {
  schema: z
    .string()
    .refine((value) => /^[0-9a-fA-F]{64}$/.test(value) || /^[A-Za-z0-9+/_-]{43}=?$/.test(value))
    .transform((value) => Buffer.from(value, value.length === 64 ? 'hex' : 'base64')),
  expects: '32 random bytes in hex or base64 (make them with: openssl rand -hex 32)',
  unit: '32 bytes',
};

const SHARED_SECRET_MIN = 32;

/** A secret that two processes share; visible ASCII, because it travels in a header. */
export const sharedSecret: Kind<string> = {
  schema: z.string().regex(new RegExp(`^[\\x21-\\x7e]{${SHARED_SECRET_MIN},256}$`)),
  expects: `${SHARED_SECRET_MIN} to 256 visible ASCII characters (make them with: openssl rand -hex 32)`,
  unit: 'text',
};

/** Makes a setting out of a kind of value. */
export function setting<T, F extends string | null>(
  env: string,
  kind: Kind<T>,
  fallback: F,
  usedBy: readonly ProcessName[],
  meaning: string,
  options: { readonly secret?: boolean; readonly fromFile?: boolean } = {},
): Setting<T, F> {
  return { env, ...kind, fallback, usedBy, meaning, secret: false, fromFile: false, ...options };
}

function hasScheme(value: string, schemes: readonly string[]): boolean {
  return URL.canParse(value) && noControls(value) && schemes.includes(new URL(value).protocol);
}

function isLinkAddress(value: string): boolean {
  if (value.startsWith('unix:')) return value.startsWith('unix:/') && noControls(value);
  if (!hasScheme(value, ['http:', 'https:'])) return false;
  const parsed = new URL(value);
  return parsed.pathname === '/' && parsed.search === '' && parsed.hash === '' && parsed.username === '';
}

function noControls(value: string): boolean {
  return !/[\u0000-\u001f\u007f]/.test(value);
}
