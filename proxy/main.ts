import cluster, { type Worker } from 'node:cluster';
import { AggregatorRegistry } from 'prom-client';
import type { Config } from '../config/load.ts';
import type { Logger } from '../config/log.ts';
import { startMetricsServer } from '../config/metrics-server.ts';
import { type RunningProcess, runProcess } from '../config/run-process.ts';
import { startProxy } from './server.ts';

/** How soon a worker that died is replaced, in milliseconds. */
const RESTART_MS = 500;

async function start(config: Config, log: Logger): Promise<RunningProcess> {
  if (cluster.isWorker) return serve(config, log);
  return config.proxyWorkers > 1 ? supervise(config, log) : serve(config, log);
}

/** One proxy; with workers, each is one and the primary serves their metrics. */
async function serve(config: Config, log: Logger): Promise<RunningProcess> {
  const secret = config.internalSecret;
  if (secret === null) throw new Error('MANDATE_INTERNAL_SECRET is not set');
  const proxy = await startProxy({
    host: config.proxyHost,
    port: config.proxyPort,
    controlPlanes: config.controlPlanes,
    internalSecret: secret,
    controlUrl: config.controlUrl,
    decisionTimeoutMs: config.decisionTimeoutMs,
    batchMax: config.decisionBatchMax,
    allowPrivateTargets: config.gatewayAllowPrivateTargets,
    targetConnectTimeoutMs: config.targetConnectTimeoutMs,
    targetTimeoutMs: config.targetTimeoutMs,
    shutdownTimeoutMs: config.shutdownTimeoutMs,
    logError: (error, message) => log.error({ err: error }, message),
  });
  const address = `http://${config.proxyHost}:${proxy.port}`;
  if (cluster.isWorker) {
    // The aggregator of the primary asks for this registry over the cluster's channel.
    AggregatorRegistry.setRegistries(proxy.metrics.registry);
    new AggregatorRegistry();
    process.send?.({ proxyReady: address });
    return { addresses: { proxy: address }, stop: () => proxy.close() };
  }
  const metrics = await startMetricsServer({
    host: config.metricsHost,
    port: config.proxyMetricsPort,
    source: proxy.metrics.registry,
  });
  return {
    addresses: { proxy: address, proxy_metrics: `http://${config.metricsHost}:${metrics.port}/metrics` },
    stop: async () => {
      await proxy.close();
      await metrics.close();
    },
  };
}

/** Forks the workers, replaces those that die, and serves the sum of their metrics. */
async function supervise(config: Config, log: Logger): Promise<RunningProcess> {
  let stopping = false;
  const aggregate = new AggregatorRegistry();
  const address = await forkFirst();
  for (let i = 1; i < config.proxyWorkers; i++) cluster.fork();
  cluster.on('exit', (worker: Worker, code, signal) => {
    if (stopping) return;
    log.error({ worker: worker.id, code, signal }, 'a proxy worker died; another is started');
    setTimeout(() => {
      if (!stopping) cluster.fork();
    }, RESTART_MS);
  });
  const metrics = await startMetricsServer({
    host: config.metricsHost,
    port: config.proxyMetricsPort,
    source: { contentType: aggregate.contentType, metrics: () => aggregate.clusterMetrics() },
  });
  return {
    addresses: { proxy: address, proxy_metrics: `http://${config.metricsHost}:${metrics.port}/metrics` },
    stop: async () => {
      stopping = true;
      await Promise.all(Object.values(cluster.workers ?? {}).map((worker) => ended(worker!)));
      await metrics.close();
    },
  };
}

/** The first worker binds the port; the others share it. Its failure to start is the proxy's. */
function forkFirst(): Promise<string> {
  return new Promise((resolve, reject) => {
    const worker = cluster.fork();
    worker.on('message', (message: { proxyReady?: string; type?: string; message?: string }) => {
      if (message.proxyReady !== undefined) resolve(message.proxyReady);
      if (message.type === 'failed') reject(new Error(message.message ?? 'a worker could not start'));
    });
    worker.once('exit', () => reject(new Error('the first proxy worker could not start')));
  });
}

function ended(worker: Worker): Promise<void> {
  return new Promise((resolve) => {
    worker.once('exit', () => resolve());
    worker.process.kill('SIGTERM');
  });
}

await runProcess('proxy', start);
