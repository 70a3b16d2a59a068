import httpProxy from '@fastify/http-proxy';
import Fastify from 'fastify';
import { announce } from '../children.ts';

/** The usual way to forward with Fastify, without logs and checks: `node bench/peers/bare-http-proxy.ts <upstream>`. */
const UPSTREAM_CONNECTIONS = 256;

const app = Fastify({ logger: false, keepAliveTimeout: 600_000, requestTimeout: 0 });
await app.register(httpProxy, {
  upstream: process.argv[2] ?? '',
  disableRequestLogging: true,
  undici: { connections: UPSTREAM_CONNECTIONS, pipelining: 1, keepAliveTimeout: 60_000 },
});
await app.listen({ host: '127.0.0.1', port: 0 });
announce(app.server);
