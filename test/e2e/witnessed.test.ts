import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import t from 'tap';
import { startWitness } from '../../examples/witness.ts';
import { opensslMissing, TestTsa } from '../tsa.ts';
import { ANY_PORTS, mandate, newDirectory, startUp } from './running-system.ts';

const POLL_MS = 200;
const SECRET = 'JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP';

/** The samples of the metrics that a control plane shows, by name and labels. */
async function samples(url: string): Promise<Map<string, number>> {
  const text = await (await fetch(url)).text();
  const lines = text.split('\n').filter((line) => line.startsWith('mandate_'));
  return new Map(
    lines.map((line) => [line.slice(0, line.lastIndexOf(' ')), Number(line.slice(line.lastIndexOf(' ')))]),
  );
}

t.test(
  'a running system has its tree heads timestamped and cosigned, and doctor asks both',
  { skip: opensslMissing() },
  async (t) => {
    const directory = await newDirectory();
    const tsa = await TestTsa.make(t);
    const logs = new Map<string, Uint8Array>();
    const witness = await startWitness({
      port: 0,
      name: 'witness.example',
      logs,
      stateFile: join(directory, 'witness.json'),
    });
    t.teardown(() => witness.close());
    const variables = {
      ...ANY_PORTS,
      MANDATE_DATA_DIR: join(directory, 'data'),
      MANDATE_HOME: join(directory, 'home'),
      MANDATE_PUBLIC_URL: 'https://mandate.example',
      MANDATE_TSA_URL: await tsa.serve(t),
      MANDATE_TSA_MODE: 'required',
      MANDATE_TSA_CA_FILE: tsa.root.certificate,
      MANDATE_WITNESS_URLS: witness.url,
      MANDATE_WITNESS_KEYS: witness.verifierKey,
      MANDATE_PUBLISH_INTERVAL_MS: '1000',
    };
    const up = await startUp(variables);
    t.teardown(async () => {
      await up.killTree();
      await rm(directory, { recursive: true, force: true });
    });
    const keys = JSON.parse((await mandate(['signing-keys', 'list', '--json'], variables)).stdout);
    logs.set('mandate.example/*', Buffer.from(keys.log_keys[0].public_key, 'base64'));
    const metrics = up.addresses['control_metrics'] ?? '';
    t.notOk((await samples(metrics)).has('mandate_timestamp_age_seconds'), 'there was none yet');
    const cli = { ...variables, MANDATE_CONTROL_URL: up.addresses['admin'] ?? '' };
    const signup = ['signup', '--email', 'a@example.com', '--password-stdin', '--totp-secret', SECRET, '--json'];
    t.equal((await mandate(signup, cli, 'correct horse battery staple\n')).code, 0);
    const wanted = ['mandate_timestamps_total{result="stored"}', 'mandate_witness_cosignatures_total{result="stored"}'];
    let seen = await samples(metrics);
    while (!wanted.every((name) => (seen.get(name) ?? 0) > 0)) {
      await delay(POLL_MS);
      seen = await samples(metrics);
    }
    t.ok(seen.has('mandate_timestamp_age_seconds'));
    t.ok(seen.has('mandate_witness_cosignature_age_seconds'));
    const well = JSON.parse((await mandate(['doctor', '--json'], variables)).stdout);
    t.match(
      well.checks.find(({ name }: { name: string }) => name === 'timestamps'),
      { ok: true, detail: /Test TSA.*trusted/ },
    );
    t.match(
      well.checks.find(({ name }: { name: string }) => name === 'witness'),
      { ok: true },
    );
    const wrong = { ...variables, MANDATE_TSA_URL: 'http://127.0.0.1:1/', MANDATE_WITNESS_URLS: `${witness.url}/else` };
    const sick = await mandate(['doctor', '--json'], wrong);
    t.equal(sick.code, 1);
    const { checks } = JSON.parse(sick.stdout);
    t.match(
      checks.find(({ name }: { name: string }) => name === 'timestamps'),
      { ok: false, detail: /cannot be reached/ },
    );
    t.match(
      checks.find(({ name }: { name: string }) => name === 'witness'),
      { ok: false, detail: /status 404/ },
    );
  },
);
