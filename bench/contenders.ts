import { type ListeningChild, startScript } from './children.ts';
import type { Contender, RunningContender } from './contender.ts';
import { gateway, gatewayBatchOne } from './gateway.ts';
import { nginxInstalled, startNginx } from './peers/nginx.ts';

const PATH = '/payments';

function forwarder(name: string, child: ListeningChild): RunningContender {
  return { url: child.url, path: PATH, headers: {}, tokens: [], pids: { [name]: [child.pid] }, stop: child.stop };
}

const script = (name: string): Contender => ({
  name,
  start: async (upstreamUrl) => forwarder(name, await startScript(`peers/${name}.ts`, [upstreamUrl])),
});

const upstreamAlone: Contender = {
  name: 'upstream',
  start: async (url) => ({ url, path: PATH, headers: {}, tokens: [], pids: {}, stop: async () => {} }),
};

const nginx: Contender = {
  name: 'nginx',
  start: async (upstreamUrl) => forwarder('nginx', await startNginx(upstreamUrl)),
};

/** Everything that is measured, in the order of the table. */
export const CONTENDERS: readonly Contender[] = [
  upstreamAlone,
  ...(nginxInstalled() ? [nginx] : []),
  script('bare-http-proxy'),
  script('bare-node'),
  gateway,
  gatewayBatchOne,
];
