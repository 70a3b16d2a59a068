import { ConfigError, loadConfig } from '../config/load.ts';
import { withoutSecrets } from '../config/log.ts';
import { EXIT_FAILED, EXIT_MISCONFIGURED } from '../config/run-process.ts';
import { migrate } from './db/migrate.ts';

/** Migrates the database of MANDATE_DATABASE_URL for the role of MANDATE_DATABASE_APP_URL; returns the exit code. */
async function main(): Promise<number> {
  const json = process.argv.includes('--json');
  try {
    const { databaseUrl, databaseAppUrl } = loadConfig('migrate');
    const app = new URL(databaseAppUrl ?? '');
    const role = decodeURIComponent(app.username);
    const password = app.password === '' ? null : decodeURIComponent(app.password);
    const onProgress = (message: string): unknown => process.stderr.write(`${message}\n`);
    const { version, applied } = await migrate(databaseUrl ?? '', { app: { role, password }, onProgress });
    const human = `The database is at version ${version} (${applied.length} applied now).`;
    process.stdout.write(`${json ? JSON.stringify({ version, applied }) : human}\n`);
    return 0;
  } catch (error) {
    const message = error instanceof Error ? withoutSecrets(error.message) : String(error);
    process.stderr.write(`${json ? JSON.stringify({ error: 'failed', detail: message }) : message}\n`);
    return error instanceof ConfigError ? EXIT_MISCONFIGURED : EXIT_FAILED;
  }
}

process.exitCode = await main();
