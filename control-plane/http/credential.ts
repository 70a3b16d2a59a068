import type { FastifyRequest } from 'fastify';

/** What follows `Bearer ` (RFC 6750 §2.1), or null where there is no such header. */
export function bearerToken(request: FastifyRequest): string | null {
  return /^Bearer ([!-~]+)$/i.exec(request.headers.authorization ?? '')?.[1] ?? null;
}
