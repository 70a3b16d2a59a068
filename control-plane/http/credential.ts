import type { FastifyRequest } from 'fastify';
import { ProblemError } from '../../core/errors.ts';

/** What follows `Bearer ` (RFC 6750 §2.1), or null where there is no such header. */
export function bearerToken(request: FastifyRequest): string | null {
  return /^Bearer ([!-~]+)$/i.exec(request.headers.authorization ?? '')?.[1] ?? null;
}

/**
 * Refuses a request that shows two credentials: Node keeps the first, another reader may keep the last.
 *
 * @throws ProblemError 400 `repeated_header`
 */
export function refuseRepeatedCredential(request: FastifyRequest): void {
  const { rawHeaders } = request.raw;
  let shown = 0;
  for (let i = 0; i < rawHeaders.length; i += 2) if (rawHeaders[i]?.toLowerCase() === 'authorization') shown += 1;
  if (shown > 1) throw new ProblemError('repeated_header', 'Send one Authorization header.');
}
