import type { FastifyRequest } from 'fastify';
import { z } from 'zod';
import { ProblemError } from '../../core/errors.ts';
import { withCode } from '../accounts/second-factor.ts';
import { FRESH_FACTOR_MS } from '../accounts/sessions.ts';
import type { RouteDependencies } from '../http/dependencies.ts';
import { sessionOf } from './session.ts';

/** The member of a body that confirms it: a code of the authenticator, or a recovery code. */
export const factorFields = { totp_code: z.string().min(1).max(64).optional() };

/**
 * Lets a request pass whose session showed a second factor within the last `maxAgeMs`, or that brings a right code,
 * which is used up and counts for the session from then on. A token alone, which lies in a file for hours, must not do
 * what the console asks a person twice for. Check everything else before, so that no code is spent for nothing.
 *
 * @throws ProblemError 403 `factor_required`, 429 `locked_out`
 */
export async function requireFactor(
  deps: RouteDependencies,
  request: FastifyRequest,
  code: string | undefined,
  maxAgeMs = FRESH_FACTOR_MS,
): Promise<void> {
  const { accountId, sessionId, factorMs, nowMs } = sessionOf(request);
  if (nowMs - factorMs <= maxAgeMs) return;
  if (code === undefined) {
    const detail = 'The second factor of this session was shown too long ago: send its present code as totp_code.';
    throw new ProblemError('factor_required', detail);
  }
  const verdict = await withCode(deps, accountId, code, async (context, { factor }) => {
    await context.sql`update sessions set factor_at = ${context.nowMs}
      where account_id = ${accountId} and session_id = ${sessionId} and revoked_at is null`;
    context.append('session.confirmed', { session_id: sessionId, factor });
  });
  if (verdict.kind === 'right') return;
  throw new ProblemError('factor_required', 'The code in totp_code is not right, or was used already: send the next.');
}

/** The same for the answer to an escalation, which the operator may ask a fresher factor for. */
export function requireApprovalFactor(
  deps: RouteDependencies,
  request: FastifyRequest,
  code: string | undefined,
): Promise<void> {
  return requireFactor(deps, request, code, deps.approvalFactorMs);
}
