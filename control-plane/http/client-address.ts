import { isIP } from 'node:net';
import type { FastifyRequest } from 'fastify';
import { sameHash, secretHash } from '../../core/secret-token.ts';
import { INTERNAL_SECRET_HEADER } from '../../core/wire.ts';

/**
 * The address that a request counts for: the proxy's client where the request proves to come through a proxy, else the
 * other end of the connection.
 *
 * The proof is the secret that proxies and control planes share; it is removed here, so that nothing can repeat it.
 * `expected` is its SHA-256 in hex, null where there is none. Call it once a request.
 */
export function clientAddress(request: FastifyRequest, expected: string | null): string {
  const given = request.headers[INTERNAL_SECRET_HEADER];
  delete request.headers[INTERNAL_SECRET_HEADER];
  if (expected === null || typeof given !== 'string' || !sameHash(secretHash(given), expected)) return request.ip;
  const forwarded = request.headers['x-forwarded-for'];
  return typeof forwarded === 'string' && isIP(forwarded) !== 0 ? forwarded : request.ip;
}
