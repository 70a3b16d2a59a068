import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { fileURLToPath } from 'node:url';
import { createClient } from '@redis/client';
import t from 'tap';
import { startProcess } from '../../../bench/processes.ts';
import { createDatabase } from '../../database.ts';
import { ended } from '../../e2e/cluster.ts';
import { redisServer, WITHOUT_REDIS } from './redis-server.ts';

interface Check {
  readonly name: string;
  readonly ok: boolean;
  readonly detail: string;
}

t.test('doctor says whether rate limits are exact over the control planes', { skip: WITHOUT_REDIS }, async (t) => {
  const { appUrl } = await createDatabase(t);
  const { url } = await redisServer(t, 'a-password');
  const doctor = (environment: Record<string, string>): Check | undefined => {
    const path = fileURLToPath(new URL('../../../control-plane/doctor-main.ts', import.meta.url));
    const env = { PATH: process.env['PATH'], MANDATE_DATABASE_APP_URL: appUrl, ...environment };
    const checks = JSON.parse(spawnSync(process.execPath, [path], { env, encoding: 'utf8' }).stdout) as Check[];
    return checks.find(({ name }) => name === 'rate limits');
  };
  const several = { MANDATE_CONTROL_PLANES: 'http://127.0.0.1:1,http://127.0.0.1:2' };
  t.match(doctor({}), { ok: true, detail: /exact with one; several need MANDATE_RATE_LIMIT_URL/ });
  t.match(doctor(several), { ok: false, detail: /2 control planes are listed, and each counts for itself/ });
  t.match(doctor({ ...several, MANDATE_RATE_LIMIT_URL: url }), { ok: true, detail: `kept at ${new URL(url).host}` });
  t.match(doctor({ MANDATE_RATE_LIMIT_URL: 'redis://:wrong@127.0.0.1:9' }), { ok: false });
});

t.test('a control plane keeps its buckets in the store that it is given', { skip: WITHOUT_REDIS }, async (t) => {
  const { appUrl } = await createDatabase(t);
  const store = await redisServer(t, 'a-password');
  const start = async () => {
    const started = await startProcess('control-plane/main', {
      MANDATE_DATABASE_APP_URL: appUrl,
      MANDATE_RATE_LIMIT_URL: store.url,
      MANDATE_MASTER_KEY: masterKey,
      MANDATE_INTERNAL_SECRET: randomBytes(32).toString('hex'),
      MANDATE_LOG_LEVEL: 'fatal',
      MANDATE_CONTROL_PORT: '0',
      MANDATE_INTERNAL_PORT: '0',
      MANDATE_CONTROL_METRICS_PORT: '0',
    });
    t.teardown(() => ended(started));
    return `${started.at['admin']}/api/v1/denial-codes`;
  };
  const masterKey = randomBytes(32).toString('hex');
  const urls = [await start(), await start()];
  const client = await createClient({ url: store.url }).connect();
  client.on('error', () => {});
  t.teardown(() => client.destroy());
  const seen = new Set<string>();
  // A bucket is forgotten as soon as it is full again, which on a busy machine may be before it is looked for.
  for (let tries = 0; tries < 100 && seen.size === 0; tries++) {
    for (const url of urls) t.equal((await fetch(url)).headers.get('x-ratelimit-limit'), '20');
    for (const key of await client.keys('*')) seen.add(key);
  }
  t.same([...seen], ['{mandate-rate}:address 127.0.0.1'], 'one bucket for both');
  await store.kill();
  for (const url of urls) t.equal((await fetch(url)).status, 503);
});
