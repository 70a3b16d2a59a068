import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

/** What is served: the text of all metrics, and its content type (a prom-client registry fits). */
export interface MetricsSource {
  readonly contentType: string;
  metrics(): Promise<string>;
}

/** A running metrics listener; `port` is the one that was bound. */
export interface MetricsServer {
  readonly port: number;
  close(): Promise<void>;
}

const HEADERS_MAX_BYTES = 8192;
const REQUEST_TIMEOUT_MS = 10_000;

/**
 * Serves `GET /metrics` on a listener of its own, so that what scrapes it never shares a port with agents.
 *
 * @throws the listener's system error (EADDRINUSE, EACCES)
 */
export async function startMetricsServer(options: {
  readonly host: string;
  readonly port: number;
  readonly source: MetricsSource;
}): Promise<MetricsServer> {
  const limits = { maxHeaderSize: HEADERS_MAX_BYTES, requestTimeout: REQUEST_TIMEOUT_MS };
  const server = createServer(limits, (request, response) => {
    if (request.method !== 'GET' || request.url !== '/metrics') {
      response.writeHead(request.url === '/metrics' ? 405 : 404, { 'content-length': 0 }).end();
      return;
    }
    options.source.metrics().then(
      (body) => {
        response.writeHead(200, { 'content-type': options.source.contentType, 'cache-control': 'no-store' }).end(body);
      },
      () => response.writeHead(500, { 'content-length': 0 }).end(),
    );
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(options.port, options.host, () => resolve());
  });
  server.unref();
  const { port } = server.address() as AddressInfo;
  return {
    port,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
