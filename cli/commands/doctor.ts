import { stat } from 'node:fs/promises';
import { connect } from 'node:net';
import { join, resolve } from 'node:path';
import { type Config, ConfigError, type Environment, loadConfig } from '../../config/load.ts';
import { CliError } from '../cli-error.ts';
import type { Invocation } from '../invocation.ts';
import { printable } from '../output.ts';
import type { UpState } from '../supervisor/data-directory.ts';
import { runningUp, runOnDatabase } from '../supervisor/operator-program.ts';

/** One thing that was looked at; `fix` says what to do where it is not well. */
export interface Check {
  readonly name: string;
  readonly ok: boolean;
  readonly detail: string;
  readonly fix?: string;
}

const NODE_MAJOR_MIN = 24;
const PROBE_TIMEOUT_MS = 5_000;
const DATABASE_CHECK_TIMEOUT_MS = 20_000;

/** `mandate doctor`: looks at everything that must be well, says how to repair what is not (then exit code 1). */
export async function runDoctor(invocation: Invocation): Promise<void> {
  const checks = await allChecks(invocation.io.environment);
  const ok = checks.every((check) => check.ok);
  const text = JSON.stringify({ ok, checks });
  invocation.show({ text, value: {} }, () => checks.map(line).join(''));
  if (ok) return;
  const wrong = checks.filter((check) => !check.ok).length;
  throw new CliError(`${wrong} of ${checks.length} checks failed.`, { code: 'unhealthy' });
}

function line(check: Check): string {
  const first = `${check.ok ? '✓' : '✗'} ${check.name.padEnd(18)} ${printable(check.detail)}\n`;
  return check.ok || check.fix === undefined ? first : `${first}${' '.repeat(21)}→ ${printable(check.fix)}\n`;
}

async function allChecks(environment: Environment): Promise<Check[]> {
  const node = nodeVersion();
  let config: Config;
  try {
    config = loadConfig('up', environment);
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return [node, ...error.problems.map((problem) => failed('configuration', problem, 'Correct it, then try again.'))];
  }
  const directory = resolve(config.dataDir);
  const running = await runningUp(config);
  return [
    node,
    { name: 'configuration', ok: true, detail: 'all settings can be read' },
    ...(await dataDirectory(directory, config)),
    ...(await databaseChecks(config, environment)),
    ...(await processChecks(config, running)),
  ];
}

function nodeVersion(): Check {
  const detail = `Node ${process.versions.node}`;
  if (Number(process.versions.node.split('.')[0]) >= NODE_MAJOR_MIN) return { name: 'runtime', ok: true, detail };
  return failed('runtime', detail, `Use Node ${NODE_MAJOR_MIN} or newer; in a checkout \`npm ci\` brings one.`);
}

async function dataDirectory(directory: string, config: Config): Promise<Check[]> {
  if (config.databaseUrl !== null && config.masterKey !== null) return [];
  const name = 'data directory';
  const checks: Check[] = [];
  for (const [path, forbidden] of [
    [directory, 0o027],
    [join(directory, 'master.key'), 0o077],
    [join(directory, 'internal.secret'), 0o077],
  ] as const) {
    const found = await stat(path).catch(() => null);
    if (found === null || (found.mode & forbidden) === 0) continue;
    const mode = (found.mode & 0o777).toString(8);
    checks.push(failed(name, `${path} has mode ${mode}: others can use it`, `Run: chmod go-rwx ${path}`));
  }
  if (checks.length > 0) return checks;
  const exists = (await stat(directory).catch(() => null)) !== null;
  return [{ name, ok: true, detail: exists ? directory : `${directory} (made by the first \`mandate up\`)` }];
}

async function databaseChecks(config: Config, environment: Environment): Promise<Check[]> {
  const program = { entry: 'control-plane/doctor-main', timeoutMs: DATABASE_CHECK_TIMEOUT_MS } as const;
  const result = await runOnDatabase(program, config, environment);
  if (result === null) {
    const fix = 'Start the system with `mandate up`, or set MANDATE_DATABASE_APP_URL to the database it uses.';
    return [failed('database', 'no database is configured and no embedded one is running', fix)];
  }
  try {
    return JSON.parse(result.stdout) as Check[];
  } catch {
    return [failed('database', 'it could not be checked', 'Run `mandate migrate` to see why.')];
  }
}

async function processChecks(config: Config, running: UpState | null): Promise<Check[]> {
  const admin = running?.addresses['admin'] ?? config.controlUrl;
  const proxy = running?.addresses['proxy'] ?? `http://${bracketed(config.proxyHost)}:${config.proxyPort}`;
  return [await ready('control plane', admin), await ready('proxy', proxy)];
}

async function ready(name: string, url: string): Promise<Check> {
  try {
    const signal = AbortSignal.timeout(PROBE_TIMEOUT_MS);
    const response = await fetch(`${url}/readyz`, { signal, redirect: 'manual' });
    await response.body?.cancel();
    if (response.ok) return { name, ok: true, detail: `${url} is ready` };
    const fix = `See its log; ${url}/readyz says what it waits for.`;
    return failed(name, `${url} answers ${response.status}: not ready`, fix);
  } catch {
    const { hostname, port } = new URL(url);
    const taken = await listens(hostname.replace(/^\[|\]$/g, ''), Number(port || '80'));
    if (taken)
      return failed(name, `${url}: another program listens there`, `Stop it, or give the ${name} another port.`);
    return failed(
      name,
      `${url} cannot be reached`,
      `Start it with \`mandate up\`, or \`mandate ${name.replace(' ', '-')}\`.`,
    );
  }
}

function listens(host: string, port: number): Promise<boolean> {
  return new Promise((resolvePort) => {
    const socket = connect({ host, port, timeout: PROBE_TIMEOUT_MS });
    const settle = (answer: boolean): void => {
      socket.destroy();
      resolvePort(answer);
    };
    socket.once('connect', () => settle(true));
    socket.once('error', () => settle(false));
    socket.once('timeout', () => settle(false));
  });
}

function bracketed(host: string): string {
  return host.includes(':') ? `[${host}]` : host;
}

function failed(name: string, detail: string, fix: string): Check {
  return { name, ok: false, detail, fix };
}
