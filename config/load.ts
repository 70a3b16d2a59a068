import { readFileSync } from 'node:fs';
import { isIP } from 'node:net';
import { type Config, SETTINGS, type SettingName, settings } from './schema.ts';
import type { ProcessName, Setting } from './setting.ts';

export type { Config } from './schema.ts';
export type { ProcessName } from './setting.ts';

/** The variables of a process, as `process.env` has them. */
export type Environment = Readonly<Record<string, string | undefined>>;

const PREFIX = 'MANDATE_';
const SECRET_FILE_MAX_BYTES = 8192;
const SOCKET_PATH_MAX_BYTES = 107;

/** The configuration cannot be used. Each problem is one sentence that names the variable and the fix, no secret. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
  readonly problems: readonly string[];

  constructor(problems: readonly string[]) {
    super(problems.join('\n'));
    this.problems = problems;
  }
}

/** The environment of this process: the only place where `process.env` is read. */
export function processEnvironment(): Environment {
  return process.env;
}

/**
 * Reads and checks all settings for one process.
 *
 * An empty variable counts as not given. Unknown variables with our prefix are refused, because a misspelt limit that
 * is silently ignored is worse than a start that fails.
 *
 * @throws ConfigError with every problem found
 */
export function loadConfig(forProcess: ProcessName, environment: Environment = processEnvironment()): Config {
  const problems: string[] = unknownNames(environment);
  const values: Partial<Record<SettingName, unknown>> = {};
  for (const [name, item] of settings()) values[name] = readSetting(item, environment, problems);
  if (problems.length > 0) throw new ConfigError(problems);
  const config = values as unknown as Config;
  problems.push(...unsafe(forProcess, config));
  if (problems.length > 0) throw new ConfigError(problems);
  return config;
}

function readSetting(item: Setting<unknown, string | null>, environment: Environment, problems: string[]): unknown {
  const given = givenText(item, environment, problems);
  const value = given ?? item.fallback;
  if (value === null) return null;
  const parsed = item.schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const shown = item.secret ? 'Its value' : JSON.stringify(value.slice(0, 100));
  problems.push(`${item.env} must be ${item.expects}. ${shown} is not.`);
  return null;
}

function givenText(item: Setting<unknown, string | null>, environment: Environment, problems: string[]): string | null {
  const direct = environment[item.env] || null;
  const file = (item.fromFile && environment[`${item.env}_FILE`]) || null;
  if (file === null) return direct;
  if (direct !== null) {
    problems.push(`${item.env} and ${item.env}_FILE are both set: unset one of them.`);
    return direct;
  }
  try {
    const content = readFileSync(file);
    if (content.length > SECRET_FILE_MAX_BYTES) throw new Error(`larger than ${SECRET_FILE_MAX_BYTES} bytes`);
    const text = content.toString('utf8').trim();
    if (text !== '') return text;
    problems.push(`${item.env}_FILE names an empty file (${JSON.stringify(file)}): put the value into it.`);
  } catch (error) {
    const reason = error instanceof Error ? error.message : 'unreadable';
    problems.push(`${item.env}_FILE cannot be read (${reason}): name a readable file or set ${item.env}.`);
  }
  return null;
}

function unknownNames(environment: Environment): string[] {
  const known = settings().flatMap(([, item]) => (item.fromFile ? [item.env, `${item.env}_FILE`] : [item.env]));
  const unknown = Object.keys(environment).filter((name) => name.startsWith(PREFIX) && !known.includes(name));
  return unknown.map((name) => {
    const shown = name.replaceAll(/[^A-Za-z0-9_]/g, '?').slice(0, 100);
    return `${shown} is not a setting: did you mean ${nearest(name, known)}? Unset it or correct its name.`;
  });
}

/** The word that is fewest edits away. */
function nearest(word: string, known: readonly string[]): string {
  const ranked = known.map((candidate) => [distance(word, candidate), candidate] as const);
  return ranked.reduce((best, next) => (next[0] < best[0] ? next : best))[1];
}

function distance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const change = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(change, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row[b.length] ?? 0;
}

/** Where the service is for whoever calls it: what the interface calls `{base_url}`, and the issuer of its tokens. */
export function publicUrl({ publicUrl: set, proxyHost, proxyPort }: Config): string {
  const host = isIP(proxyHost) === 6 ? `[${proxyHost}]` : proxyHost;
  return set ?? `http://${host}:${proxyPort}`;
}

/** Where a client of this configuration finds the service: its own setting first. */
export function serviceUrl(config: Config): string {
  return config.url ?? publicUrl(config);
}

/** Whether only this machine can reach what listens on `host`. */
export function isLoopback(host: string): boolean {
  const bare = host.replace(/^\[|\]$/g, '').toLowerCase();
  if (isIP(bare) === 4) return bare.startsWith('127.');
  return bare === 'localhost' || bare === '::1';
}

/** What is missing or unsafe for this process; each a sentence that says what to set. */
function unsafe(forProcess: ProcessName, config: Config): string[] {
  const problems: string[] = [];
  const required = (name: SettingName, why: string): void => {
    if (config[name] === null) problems.push(`${SETTINGS[name].env} is not set: ${why}.`);
  };
  if (forProcess === 'migrate') required('databaseUrl', 'migrations run as the role that owns the schema');
  if (forProcess === 'control-plane' || forProcess === 'migrate') {
    required(
      'databaseAppUrl',
      'set it to the same database as role mandate_app, or run `mandate up`, which does it all',
    );
  }
  if (forProcess === 'control-plane') {
    required('masterKey', 'stored secrets are encrypted with it; make one with: openssl rand -hex 32');
  }
  if (forProcess === 'control-plane' || forProcess === 'proxy') {
    required('internalSecret', 'proxies and control planes must share one; make it with: openssl rand -hex 32');
  }
  if ((forProcess === 'control-plane' || forProcess === 'up') && config.smtpUrl !== null) {
    required('mailFrom', 'e-mail has a sender; set it to an address that your SMTP server may send for');
  }
  if (forProcess === 'control-plane' || forProcess === 'up') problems.push(...publishing(config));
  problems.push(...plaintext(forProcess, config), ...socketTooLong(config));
  return problems;
}

/** Timestamps and witnesses: what one setting says that another one does not bear out. */
function publishing({ tsaUrl, tsaMode, tsaCaFile, witnessUrls, witnessKeys }: Config): string[] {
  const problems: string[] = [];
  if (tsaUrl !== null && new URL(tsaUrl).username !== '') {
    problems.push(`${SETTINGS.tsaUrl.env} holds a user name, which is not sent: leave it away.`);
  }
  if (tsaUrl === null && tsaMode !== null && tsaMode !== 'off') {
    problems.push(`${SETTINGS.tsaMode.env} is ${tsaMode}, and ${SETTINGS.tsaUrl.env} is not set: name an authority.`);
  }
  if (tsaMode === 'required' && tsaCaFile === null) {
    problems.push(`${SETTINGS.tsaCaFile.env} is not set: a required timestamp must come from somebody you trust.`);
  }
  const [urls, keys] = [witnessUrls?.length ?? 0, witnessKeys?.length ?? 0];
  if (urls !== keys) {
    const both = `${SETTINGS.witnessUrls.env} names ${urls} witnesses and ${SETTINGS.witnessKeys.env} ${keys}`;
    problems.push(`${both}: give one key for each, in the same order.`);
  }
  const names = new Set(witnessKeys?.map(({ name }) => name));
  if (names.size !== keys) problems.push(`${SETTINGS.witnessKeys.env} names a witness twice: each has its own name.`);
  return problems;
}

function plaintext(forProcess: ProcessName, config: Config): string[] {
  if (config.allowPlaintext) return [];
  const listeners: [ProcessName, SettingName, string][] = [
    ['proxy', 'proxyHost', config.proxyHost],
    ['control-plane', 'controlHost', config.controlHost],
    ['control-plane', 'internalHost', config.internalHost],
  ];
  const exposed = listeners.filter(([owner, , host]) => {
    return (owner === forProcess || forProcess === 'up') && !isLoopback(host);
  });
  const problems = exposed.map(
    ([, name, host]) =>
      `${SETTINGS[name].env} is ${host}, which other machines can reach without TLS: put a TLS terminator in front ` +
      'and set MANDATE_ALLOW_PLAINTEXT=true, or listen on 127.0.0.1.',
  );
  const store = forProcess === 'control-plane' || forProcess === 'up' ? config.rateLimitUrl : null;
  if (store?.startsWith('redis:') === true && !isLoopback(new URL(store).hostname)) {
    problems.push(
      `${SETTINGS.rateLimitUrl.env} would be used without TLS: use rediss:// there, or set ` +
        'MANDATE_ALLOW_PLAINTEXT=true where the network itself encrypts.',
    );
  }
  const links = forProcess === 'proxy' ? [...config.controlPlanes, config.controlUrl] : [];
  const ofCli = config.apiKey === null ? [config.controlUrl] : [config.controlUrl, serviceUrl(config)];
  for (const address of forProcess === 'cli' ? ofCli : links) {
    if (!address.startsWith('http:') || isLoopback(new URL(address).hostname)) continue;
    problems.push(
      `${address} would be sent secrets without TLS: use https:// there, or set MANDATE_ALLOW_PLAINTEXT=true where ` +
        'the network itself encrypts.',
    );
  }
  return problems;
}

function socketTooLong(config: Config): string[] {
  const paths: [string, string][] = config.controlPlanes
    .filter((address) => address.startsWith('unix:'))
    .map((address) => ['MANDATE_CONTROL_PLANES', address.slice('unix:'.length)]);
  if (config.controlSocket !== null) paths.push(['MANDATE_CONTROL_SOCKET', config.controlSocket]);
  return paths
    .filter(([, path]) => Buffer.byteLength(path) > SOCKET_PATH_MAX_BYTES)
    .map(([name, path]) => {
      const bytes = Buffer.byteLength(path);
      return `${name} names a socket path of ${bytes} bytes; ${SOCKET_PATH_MAX_BYTES} is the most: shorten it.`;
    });
}
