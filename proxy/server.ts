import { createServer, type IncomingMessage, type Server, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Duplex } from 'node:stream';
import {
  BATCH_ASKS_MAX,
  CLIENT_HEADERS_TIMEOUT_MS,
  CLIENT_KEEP_ALIVE_MS,
  CLIENT_REQUEST_TIMEOUT_MS,
  HEAD_MAX_BYTES,
} from '../core/limits.ts';
import type { Resolve } from '../core/name-resolver.ts';
import { DecisionClient } from './decision-client.ts';
import { Mappings } from './gateway/mappings.ts';
import { Gateway, gatewayPrefix } from './gateway/route.ts';
import { Targets } from './gateway/targets.ts';
import { ProxyMetrics } from './metrics.ts';
import { passThrough } from './pass-through.ts';
import type { NewKeysRate } from './verify/new-keys.ts';
import { VERIFY_PATH, Verifier } from './verify/route.ts';

export interface ProxyOptions {
  readonly host: string;
  readonly port: number;
  readonly controlPlanes: readonly string[];
  readonly internalSecret: string;
  /** The control plane's admin listener, for what is passed through. */
  readonly controlUrl: string;
  readonly decisionTimeoutMs: number;
  readonly batchMax?: number;
  readonly allowPrivateTargets: boolean;
  readonly targetConnectTimeoutMs: number;
  readonly targetTimeoutMs: number;
  readonly shutdownTimeoutMs: number;
  /** How many unknown agents' keys may be checked; the usual bound where nothing is said. */
  readonly newAgentKeys?: NewKeysRate;
  readonly resolve?: Resolve;
  readonly logError: (error: unknown, message: string) => void;
}

export interface RunningProxy {
  readonly port: number;
  readonly metrics: ProxyMetrics;
  close(): Promise<void>;
}

/**
 * Starts one proxy: the gateway on node:http itself, everything else through Fastify on the same port.
 *
 * `close` takes no new connections, finishes what is in flight, tells the outcomes, and then lets go of the rest.
 */
export async function startProxy(options: ProxyOptions): Promise<RunningProxy> {
  const batchMax = options.batchMax ?? BATCH_ASKS_MAX;
  const decisions = new DecisionClient({
    controlPlanes: options.controlPlanes,
    secret: options.internalSecret,
    timeoutMs: options.decisionTimeoutMs,
    batchMax,
    observeSeconds: (path, seconds) => metrics.decisionSeconds(path, seconds),
    logWarning: options.logError,
  });
  const targets = new Targets({
    allowPrivate: options.allowPrivateTargets,
    connectTimeoutMs: options.targetConnectTimeoutMs,
    timeoutMs: options.targetTimeoutMs,
    ...(options.resolve === undefined ? {} : { resolve: options.resolve }),
  });
  const metrics: ProxyMetrics = new ProxyMetrics({
    controlPlanesUp: () => decisions.up,
    inFlight: () => gateway.inFlight + verifier.inFlight,
  });
  const gateway = new Gateway({
    decisions,
    mappings: new Mappings(),
    targets,
    metrics,
    decisionTimeoutMs: options.decisionTimeoutMs,
    batchMax,
    logError: options.logError,
  });
  const verifier = new Verifier({
    decisions,
    decisionTimeoutMs: options.decisionTimeoutMs,
    newAgentKeys: options.newAgentKeys,
    logError: options.logError,
  });
  const others = await passThrough({
    controlUrl: options.controlUrl,
    internalSecret: options.internalSecret,
    ready: () => decisions.alive(1_000),
    charge: (address) => decisions.charge({ token_hash: null, address }),
  });
  const server = createServer(
    {
      maxHeaderSize: HEAD_MAX_BYTES,
      headersTimeout: CLIENT_HEADERS_TIMEOUT_MS,
      requestTimeout: CLIENT_REQUEST_TIMEOUT_MS,
      keepAliveTimeout: CLIENT_KEEP_ALIVE_MS,
      connectionsCheckingInterval: 5_000,
      requireHostHeader: true,
    },
    (request, response) => {
      const prefix = gatewayPrefix(request);
      if (prefix !== null) gateway.handle(request, response, prefix);
      else if (isVerification(request)) verifier.handle(request, response);
      else others.routing(request, response);
    },
  );
  refuseUpgrades(server);
  await listen(server, options);
  return {
    port: (server.address() as AddressInfo).port,
    metrics,
    close: async () => {
      await drain(server, options.shutdownTimeoutMs);
      await decisions.close(options.shutdownTimeoutMs / 2);
      await Promise.all([targets.close(), others.close()]);
    },
  };
}

function isVerification({ url = '' }: IncomingMessage): boolean {
  return url.startsWith(VERIFY_PATH) && (url.length === VERIFY_PATH.length || url[VERIFY_PATH.length] === '?');
}

function listen(server: Server, { host, port }: ProxyOptions): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, host, () => {
      server.off('error', reject);
      resolve();
    });
  });
}

const BAD_REQUEST = 'HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\r\n';
const STATUS_OF: Readonly<Record<string, string>> = {
  HPE_HEADER_OVERFLOW: '431 Request Header Fields Too Large',
  ERR_HTTP_REQUEST_TIMEOUT: '408 Request Timeout',
};

/** CONNECT and upgrades would take the connection out of our sight: the socket ends. Malformed HTTP ends it as well. */
function refuseUpgrades(server: Server): void {
  const refuse = (_request: IncomingMessage, socket: Duplex): void => {
    socket.on('error', () => {});
    socket.end(BAD_REQUEST);
  };
  server.on('upgrade', refuse);
  server.on('connect', refuse);
  server.on('clientError', (error: Error & { code?: string }, socket: Duplex) => {
    socket.on('error', () => {});
    if (!socket.writable || owesAnswer(socket)) return void socket.destroy();
    const status = STATUS_OF[error.code ?? ''];
    socket.end(status === undefined ? BAD_REQUEST : BAD_REQUEST.replace('400 Bad Request', status));
  });
}

/**
 * Whether an earlier request on this connection, read to its end, still waits for its answer or is being answered: what
 * is written now would be taken for that answer, or for a part of it.
 */
function owesAnswer(socket: Duplex): boolean {
  const answer = '_httpMessage' in socket ? socket._httpMessage : null;
  return answer instanceof ServerResponse && (answer.headersSent || answer.req.complete);
}

async function drain(server: Server, timeoutMs: number): Promise<void> {
  const closed = new Promise<void>((resolve) => server.close(() => resolve()));
  server.closeIdleConnections();
  // Idle keep-alive connections appear whenever a request in flight ends.
  const idle = setInterval(() => server.closeIdleConnections(), 50);
  const forced = setTimeout(() => server.closeAllConnections(), timeoutMs);
  await closed;
  clearInterval(idle);
  clearTimeout(forced);
}
