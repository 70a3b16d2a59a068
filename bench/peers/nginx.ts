import { spawn, spawnSync } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type ListeningChild, pidOf, stopChild } from '../children.ts';

const START_ATTEMPTS = 100;
const ATTEMPT_MS = 50;

/** Whether there is an nginx to compare with. */
export function nginxInstalled(): boolean {
  return spawnSync('nginx', ['-v']).status === 0;
}

/** One worker, keep-alive on both sides, no access log: nginx as a plain forwarder. */
function nginxConfig(folder: string, port: number, upstream: string): string {
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'];
  return `worker_processes 1;
pid ${folder}/nginx.pid;
error_log stderr crit;
events { worker_connections 4096; }
http {
  access_log off;
  keepalive_timeout 600s;
  keepalive_requests 1000000000;
  tcp_nodelay on;
${temporary.map((name) => `  ${name}_temp_path ${folder}/${name};`).join('\n')}
  upstream target {
    server ${new URL(upstream).host};
    keepalive 64;
    keepalive_requests 1000000000;
  }
  server {
    listen 127.0.0.1:${port} backlog=1024;
    location / {
      proxy_pass http://target;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
    }
  }
}
`;
}

async function freePort(): Promise<number> {
  const { promise, resolve, reject } = Promise.withResolvers<number>();
  const server = createServer().once('error', reject);
  server.listen(0, '127.0.0.1', () => {
    const address = server.address();
    server.close(() => resolve(typeof address === 'object' && address !== null ? address.port : 0));
  });
  return promise;
}

/** Runs nginx in front of the upstream, with all its files in a temporary folder that `stop` removes. */
export async function startNginx(upstream: string): Promise<ListeningChild> {
  const folder = await mkdtemp(join(tmpdir(), 'mandate-bench-nginx-'));
  const port = await freePort();
  await writeFile(join(folder, 'nginx.conf'), nginxConfig(folder, port, upstream));
  const args = ['-p', folder, '-e', 'stderr', '-c', join(folder, 'nginx.conf'), '-g', 'daemon off;'];
  const child = spawn('nginx', args, { stdio: ['ignore', 'ignore', 'inherit'] });
  const url = `http://127.0.0.1:${port}`;
  const stop = async (): Promise<void> => {
    await stopChild(child);
    await rm(folder, { recursive: true, force: true });
  };
  for (let attempt = 0; attempt < START_ATTEMPTS && child.exitCode === null; attempt++) {
    const answered = await fetch(`${url}/__ledger`).then(
      (response) => response.ok,
      () => false,
    );
    if (answered) return { url, pid: pidOf(child), stop };
    await sleep(ATTEMPT_MS);
  }
  await stop();
  throw new Error('nginx did not start');
}
