import { runProcess } from '../config/run-process.ts';
import { startEmbedded } from './db/embedded.ts';
import { migrate } from './db/migrate.ts';

// The embedded database as a process of its own under `mandate up`: started, migrated, and stopped last.
await runProcess(
  'up',
  async (config, log, report) => {
    const port = Number(process.argv[2] ?? '0');
    const server = await startEmbedded({ dataDir: config.dataDir, port, onProgress: report });
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
