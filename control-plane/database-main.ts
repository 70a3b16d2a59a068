import { setTimeout as delay } from 'node:timers/promises';
import { runProcess } from '../config/run-process.ts';
import { DatabaseError } from './db/database-error.ts';
import { type EmbeddedOptions, type EmbeddedPostgres, startEmbedded } from './db/embedded.ts';
import { migrate } from './db/migrate.ts';

/** The processes of a supervisor that was killed stop by themselves: a start right after waits for that, no longer. */
const IN_USE_WAIT_MS = 5_000;
const IN_USE_RETRY_MS = 500;

// The embedded database as a process of its own under `mandate up`: started, migrated, and stopped last.
await runProcess(
  'up',
  async (config, log, report) => {
    const port = Number(process.argv[2] ?? '0');
    const server = await startOnceFree({ dataDir: config.dataDir, port, onProgress: report });
    server.ended.then(({ expected }) => {
      if (expected) return;
      log.fatal('the database server ended unexpectedly');
      process.exit(1);
    });
    try {
      await migrate(server.ownerUrl, { app: server.app, onProgress: report });
    } catch (error) {
      await server.stop();
      throw error;
    }
    return {
      addresses: { database: `postgresql://127.0.0.1:${server.port}` },
      confidential: { app_url: server.appUrl, port: String(server.port) },
      stop: () => server.stop(),
    };
  },
  'database',
);

async function startOnceFree(options: EmbeddedOptions): Promise<EmbeddedPostgres> {
  for (const end = Date.now() + IN_USE_WAIT_MS; ; await delay(IN_USE_RETRY_MS)) {
    try {
      return await startEmbedded(options);
    } catch (error) {
      const inUse = error instanceof DatabaseError && error.code === 'data_directory_in_use';
      if (!inUse || Date.now() > end) throw error;
    }
  }
}
