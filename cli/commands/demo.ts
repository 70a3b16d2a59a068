import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Environment } from '../../config/load.ts';
import { SETTINGS } from '../../config/schema.ts';
import { AdminClient } from '../admin-client.ts';
import { CliError } from '../cli-error.ts';
import { Story } from '../demo-story.ts';
import type { Invocation } from '../invocation.ts';
import { bodyText } from '../json-text.ts';
import { freshCode } from '../second-factor.ts';
import { entryEnvironment, entryPath } from '../supervisor/entry.ts';
import { newSystem, stopOnSignal } from '../supervisor/run-system.ts';

const TARGET_START_MS = 15_000;

const PORTS = [SETTINGS.proxyPort, SETTINGS.controlPort, SETTINGS.proxyMetricsPort, SETTINGS.controlMetricsPort];

/**
 * `mandate up --demo`: starts everything on a throwaway data directory (unless MANDATE_DATA_DIR is set), plays the
 * story against an example payments API, and stops everything again.
 *
 * @throws CliError where a step went otherwise than expected
 */
export async function runDemo(invocation: Invocation): Promise<void> {
  const { environment, throwaway } = await demoEnvironment(invocation.io.environment);
  const system = newSystem(invocation, environment);
  void stopOnSignal(invocation, system).catch(() => {});
  let target: ChildProcess | null = null;
  try {
    invocation.note('Starting a database, a control plane, a proxy and an example payments API …');
    const addresses = await system.start();
    const started = await startTarget(environment);
    target = started.process;
    await play(invocation, { addresses, targetUrl: started.url });
  } finally {
    target?.kill();
    await system.stop();
    if (throwaway !== null) await rm(throwaway, { recursive: true, force: true });
  }
}

async function play(
  invocation: Invocation,
  places: { readonly addresses: Readonly<Record<string, string>>; readonly targetUrl: string },
): Promise<void> {
  const adminUrl = places.addresses['admin'] ?? '';
  const admin = new AdminClient(adminUrl, await signUp(adminUrl));
  const colourful = invocation.io.stdout.isTTY === true && !invocation.io.environment['NO_COLOR'];
  const story = new Story({
    admin,
    proxyUrl: places.addresses['proxy'] ?? '',
    targetUrl: places.targetUrl,
    write: (text) => (invocation.json ? undefined : invocation.io.stdout.write(text)),
    bold: (text) => (colourful ? `\u001b[1m${text}\u001b[22m` : text),
  });
  const { entries, hash } = await story.run();
  const text = JSON.stringify({ steps: story.scenes, evidence: { entries, hash, intact: true } });
  invocation.show({ text, value: {} }, () => farewell(entries));
}

/** An account with its second factor, as `mandate signup` makes one; returns its session token. */
async function signUp(adminUrl: string): Promise<string> {
  const { generateSecret } = await import('otplib');
  const admin = new AdminClient(adminUrl, null);
  const secret = generateSecret();
  const email = `demo-${randomBytes(4).toString('hex')}@example.com`;
  const password = randomBytes(18).toString('base64url');
  const begun = await admin.send('POST', '/admin/signup', bodyText({ email, password, totp_secret: secret }));
  const confirm = bodyText({ signup_token: begun.value['signup_token'], totp_code: await freshCode(secret) });
  return String((await admin.send('POST', '/admin/signup/confirm', confirm)).value['token']);
}

async function demoEnvironment(base: Environment): Promise<{ environment: Environment; throwaway: string | null }> {
  const environment: Record<string, string | undefined> = { MANDATE_LOG_LEVEL: 'error', ...base };
  for (const { env, fallback } of PORTS) {
    if (!environment[env] && !(await isFree(Number(fallback)))) environment[env] = '0';
  }
  if (base['MANDATE_DATA_DIR']) return { environment, throwaway: null };
  const throwaway = await mkdtemp(join(tmpdir(), 'mandate-demo-'));
  return { environment: { ...environment, MANDATE_DATA_DIR: throwaway }, throwaway };
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const probe = createServer();
    probe.once('error', () => resolve(false));
    probe.listen(port, '127.0.0.1', () => probe.close(() => resolve(true)));
  });
}

async function startTarget(environment: Environment): Promise<{ process: ChildProcess; url: string }> {
  const child = spawn(process.execPath, [entryPath('examples/payments-api')], {
    stdio: ['ignore', 'ignore', 2, 'ipc'],
    env: entryEnvironment({ PATH: environment['PATH'], PAYMENTS_PORT: '0' }),
  });
  const url = await new Promise<string>((resolve, reject) => {
    const timer = setTimeout(() => reject(new CliError('The example payments API did not start.')), TARGET_START_MS);
    const settle = (): void => clearTimeout(timer);
    child.once('message', (message: { url: string }) => {
      settle();
      resolve(message.url);
    });
    child.once('exit', (code) => {
      settle();
      reject(new CliError(`The example payments API ended at once (exit code ${code}).`));
    });
  });
  return { process: child, url };
}

function farewell(entries: number): string {
  return `
That is the whole idea: the agent holds no key to the payments API, only a token for the gateway. ${entries} entries of
evidence say what was decided and why. To go on, start it for real and sign up:

  npm start
  npm run -s mandate -- signup --email you@example.com
`;
}
