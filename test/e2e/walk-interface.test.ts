import { spawn, spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { ANY_PORTS, mandate, newDirectory, startUp, testEnvironment } from './running-system.ts';

const SCRIPT = fileURLToPath(new URL('walk-interface.sh', import.meta.url));
const CLI = fileURLToPath(new URL('../../cli/main.ts', import.meta.url));
const MISSING = ['curl', 'jq', 'openssl', 'bash'].filter((tool) => spawnSync(tool, ['--version']).error !== undefined);
const TOTP = 'JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP';

t.test(
  'the interface, from top to bottom, with curl, jq and openssl against a system that was just started',
  { skip: MISSING.length > 0 && `${MISSING.join(', ')} not installed`, timeout: 120_000 },
  async (t) => {
    const directory = await newDirectory();
    const up = await startUp({ ...ANY_PORTS, MANDATE_DATA_DIR: join(directory, 'data') });
    t.teardown(() => up.killTree());
    const config = join(directory, 'config');
    const variables = {
      MANDATE_CONTROL_URL: up.addresses['admin'] ?? up.addresses['control'] ?? '',
      XDG_CONFIG_HOME: config,
      HOME: directory,
    };
    const run = async (args: readonly string[], stdin = ''): Promise<Record<string, string>> => {
      const { code, stdout, stderr } = await mandate([...args, '--json'], variables, stdin);
      if (code !== 0) throw new Error(`${args.join(' ')}: ${stderr}`);
      return JSON.parse(stdout) as Record<string, string>;
    };
    const password = 'a long and boring password\n';
    const account = ['--email', 'walk@example.test', '--password-stdin', '--totp-secret', TOTP];
    const { token = '' } = await run(['signup', ...account], password);
    Object.assign(variables, { MANDATE_TOKEN: token });
    const key = join(directory, 'agent.pem');
    const { agent_did = '' } = await run(['agent-key', 'create', '--out', key]);
    const limits = ['--scope', 'payments.*', '--per-action', '100', '--per-month', '1000', '--threshold', '50'];
    const held = await run(['mandates', 'create', ...limits, '--activate']);
    const own = await run(['mandates', 'create', ...limits, '--agent-did', agent_did, '--activate']);
    const scopes = 'agents:present,verify,consumptions:write,executions:write,mandates:read,evidence:read';
    const { api_key = '', key_id = '' } = await run(['keys', 'create', '--scope', scopes]);
    // The walk is quicker than a person: the management class is raised for it.
    await run(['keys', 'limits', key_id, '--management-per-second', '1000', '--management-burst', '1000']);

    const child = spawn('bash', [SCRIPT], {
      env: testEnvironment({
        ...variables,
        MANDATE_URL: up.addresses['proxy'] ?? '',
        MANDATE_API_KEY: api_key,
        HELD_MANDATE: held['mandate_id'] ?? '',
        OWN_MANDATE: own['mandate_id'] ?? '',
        AGENT_KEY: key,
        APPROVE: `env -u MANDATE_URL -u MANDATE_API_KEY ${process.execPath} ${CLI} escalations approve`,
      }),
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let [stdout, stderr] = ['', ''];
    child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text));
    child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
    const code = await new Promise((resolve) => child.once('close', resolve));
    t.equal(code, 0, stderr);
    t.match(stdout, /^\d{3} checks passed$/m);
    t.notMatch(stdout, /(?:ctk|etk|mak|ags)_[A-Za-z0-9_-]{20}/);
    const tried = await mandate(['sandbox', 'try'], {
      ...variables,
      MANDATE_URL: up.addresses['proxy'] ?? '',
      MANDATE_API_KEY: api_key,
    });
    t.match(tried, { code: 0, stdout: /"decision": "allow".*"MD-302".*"decision": "escalate"/s }, tried.stderr);
    const chain = await run(['evidence', 'verify']);
    t.ok(Number(chain['entries']) > 10, JSON.stringify(chain));
  },
);
