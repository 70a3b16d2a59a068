import type { IncomingMessage, ServerResponse } from 'node:http';
import { ProblemError } from '../../core/errors.ts';
import { secretHash } from '../../core/secret-token.ts';
import { ControlPlaneAway } from '../control-link.ts';
import type { DecisionClient } from '../decision-client.ts';
import { type AnswerFrame, sendProblem } from './answers.ts';
import { BodyAborted } from './body.ts';
import { addressOf, bearerSecret } from './head.ts';

/** What an answer needs to be given: of a request that was read as of one that was not. */
export interface Answerable {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly requestId: string;
}

/**
 * Answers a request that did not come to a decision; never throws.
 *
 * It still costs its sender one request: of the bucket of the secret that it shows, or of its address.
 */
export async function answerFailure(
  { decisions, logError }: { decisions: DecisionClient; logError: (error: unknown, message: string) => void },
  { request, response, requestId }: Answerable,
  secretPrefix: 'gwt' | 'mak',
  error: unknown,
): Promise<void> {
  if (error instanceof BodyAborted || response.destroyed) {
    response.destroy();
    return;
  }
  let problem = problemOf(error);
  if (problem.code === 'internal') logError(error, 'a request failed');
  if (response.headersSent) {
    response.destroy();
    return;
  }
  let rate: AnswerFrame['rate'] = null;
  if (problem.status < 500) {
    const token = bearerSecret(request.headers.authorization ?? null, secretPrefix);
    const tokenHash = token === null ? null : secretHash(token);
    const charged = await decisions.charge({ token_hash: tokenHash, address: addressOf(request) });
    rate = charged?.rate ?? null;
    const retryAfterSeconds = charged?.retry_after_s ?? null;
    if (retryAfterSeconds !== null) {
      problem = new ProblemError('rate_limited', 'The rate of requests is exceeded.', { retryAfterSeconds });
    }
  }
  sendProblem(response, problem, { requestId, rate, receiptId: null, decision: null });
}

function problemOf(error: unknown): ProblemError {
  if (error instanceof ProblemError) return error;
  if (error instanceof ControlPlaneAway) {
    const detail = 'No control plane answered, so nothing was decided and nothing was forwarded.';
    return new ProblemError('not_decidable', detail, { cause: error, retryAfterSeconds: 1 });
  }
  return new ProblemError('internal', 'Something went wrong here; nothing more is known.', { cause: error });
}
