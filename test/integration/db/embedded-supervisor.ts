/** A process that holds an embedded database, for tests that kill it: prints its URLs, then waits to be killed. */
import { startEmbedded } from '../../../control-plane/db/embedded.ts';

const server = await startEmbedded({ dataDir: String(process.argv[2]) });
process.stdout.write(`${JSON.stringify({ pid: server.pid, ownerUrl: server.ownerUrl, home: server.home })}\n`);
setInterval(() => {}, 60_000);
