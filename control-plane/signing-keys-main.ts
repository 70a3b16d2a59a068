import { setTimeout as delay } from 'node:timers/promises';
import { ConfigError, loadConfig } from '../config/load.ts';
import { withoutSecrets } from '../config/log.ts';
import { EXIT_FAILED, EXIT_MISCONFIGURED } from '../config/run-process.ts';
import { Custody, checkMasterKey } from './custody/custody.ts';
import { connect, type Sql } from './db/client.ts';
import { assertMigrated } from './db/migrate.ts';
import { listLogKeys } from './signing/log-key.ts';
import { listKeys, type Rotation, rotateKeys, storedKeys } from './signing/stored-keys.ts';

// The database part of `mandate signing-keys list|rotate|export`. These keys are the service's, not an account's: who may
// rotate them is who runs it, that is, who holds the database and the master key.

async function rotate(sql: Sql, masterKey: Buffer | null): Promise<Rotation> {
  if (masterKey === null) throw new Error('MANDATE_MASTER_KEY is not set, and the keys are sealed under it.');
  // Where there are keys there is a master key that they were sealed under; only then may it be asked for.
  if ((await listKeys(sql)).length > 0) await checkMasterKey(sql, masterKey);
  const custody = new Custody(masterKey);
  for (;;) {
    const done = await rotateKeys(sql, custody);
    if (!('waitMs' in done)) return done;
    await delay(done.waitMs);
  }
}

async function list(sql: Sql) {
  return { keys: await listKeys(sql), log_keys: await listLogKeys(sql) };
}

/** The JWKS that the service publishes. */
async function exported(sql: Sql) {
  return { keys: (await storedKeys(sql)).map(({ public_jwk }) => JSON.parse(public_jwk) as unknown) };
}

async function answerTo(command: string | undefined, sql: Sql, masterKey: Buffer | null) {
  if (command === 'rotate') return await rotate(sql, masterKey);
  return command === 'export' ? await exported(sql) : await list(sql);
}

async function main(): Promise<number> {
  let sql: Sql | null = null;
  try {
    const { databaseAppUrl, masterKey } = loadConfig('up');
    if (databaseAppUrl === null) throw new Error('MANDATE_DATABASE_APP_URL is not set.');
    sql = connect(databaseAppUrl, { max: 1, applicationName: 'mandate signing-keys' });
    await assertMigrated(sql);
    const answer = await answerTo(process.argv[2], sql, masterKey);
    process.stdout.write(`${JSON.stringify(answer)}\n`);
    return 0;
  } catch (error) {
    const detail = error instanceof Error ? withoutSecrets(error.message) : String(error);
    process.stdout.write(`${JSON.stringify({ error: 'failed', detail })}\n`);
    return error instanceof ConfigError ? EXIT_MISCONFIGURED : EXIT_FAILED;
  } finally {
    await sql?.end({ timeout: 1 });
  }
}

process.exitCode = await main();
