import type { FastifyInstance, FastifyRequest } from 'fastify';
import { contextDigest } from '../../core/action.ts';
import { ProblemError } from '../../core/errors.ts';
import { SANDBOX_BODY_MAX_BYTES, SANDBOX_MANDATES_PER_HOUR } from '../../core/limits.ts';
import { isTypeId } from '../../core/type-id.ts';
import { actionOf } from '../../core/verify-request.ts';
import { CUSTODIAL_NOTE, present } from '../custody/routes.ts';
import { approve, readEscalation, reject, type Settlement } from '../escalations/store.ts';
import type { RouteDependencies } from '../http/dependencies.ts';
import { countPurpose } from '../http/rate-limit.ts';
import { readBody } from '../http/request.ts';
import { registerEcho } from './echo.ts';
import { sandboxAnswerInput, sandboxMandateInput, sandboxPresentationInput } from './input.ts';
import { createSandboxMandate, requireAgentSecret } from './mandates.ts';

const MANDATES_RATE = { perSecond: SANDBOX_MANDATES_PER_HOUR / 3_600, burst: SANDBOX_MANDATES_PER_HOUR } as const;
const OPEN = { config: { public: true }, bodyLimit: SANDBOX_BODY_MAX_BYTES } as const;

const UNBOUND_NOTE = 'It names no action, which only the sandbox accepts: it may be verified with any one, once.';

/**
 * The sandbox: mandates, presentations, answers to escalations and the echo, for anybody and without a key.
 *
 * Everything here is the sandbox account's and nothing else: no route takes an account from its request. Source:
 * interface.md "POST /api/v1/sandbox/…", contract §§3, 8, docs/design/0009-sandbox.md.
 */
export function registerSandboxRoutes(app: FastifyInstance, deps: RouteDependencies): void {
  registerEcho(app);
  const accountId = deps.booking.sandboxAccountId;
  if (accountId === null) return;
  app.post('/api/v1/sandbox/mandates', OPEN, async (request, reply) => {
    const input = readBody(request, sandboxMandateInput);
    await countPurpose(request, deps, 'sandbox mandates', MANDATES_RATE);
    const made = await deps.commands.command(accountId, (context) =>
      createSandboxMandate(context, deps.custody, input),
    );
    return reply.code(201).send(made);
  });
  app.post('/api/v1/sandbox/presentations', OPEN, async (request) => {
    const { mandate_id: id, agent_secret: secret, action } = readBody(request, sandboxPresentationInput);
    const mandateId = isTypeId(id, 'mdt') ? id : NO_MANDATE;
    await requireAgentSecret(deps.sql, { accountId, mandateId, secret });
    const ctx = action === undefined ? null : contextDigest(actionOf(action));
    const presentation = await present(deps, { accountId, mandateId, ctx });
    const note = ctx === null ? `${CUSTODIAL_NOTE} ${UNBOUND_NOTE}` : CUSTODIAL_NOTE;
    return { presentation, custody: 'custodial', note };
  });
  app.post('/api/v1/sandbox/escalations/:id/approve', OPEN, async (request) => {
    const answer = await answerOf(request, deps, accountId);
    taken(await approve(deps.commands, deps.custody, accountId, answer));
    deps.escalationChanged?.(accountId, answer.escalationId);
    const { escalationId: id } = answer;
    return { id, status: 'approved', escalation_token: deps.custody.escalationToken(id) };
  });
  app.post('/api/v1/sandbox/escalations/:id/reject', OPEN, async (request) => {
    const answer = await answerOf(request, deps, accountId);
    taken(await reject(deps.commands, accountId, answer));
    deps.escalationChanged?.(accountId, answer.escalationId);
    return { id: answer.escalationId, status: 'rejected' };
  });
}

/** An identifier that nothing has: what is malformed takes the same way as what is not there. */
const NO_MANDATE = `mdt_${'0'.repeat(26)}` as const;

/** The answer of whoever holds the secret of the escalation's mandate: in the sandbox that is its principal as well. */
async function answerOf(request: FastifyRequest, deps: RouteDependencies, accountId: string) {
  const { agent_secret: secret } = readBody(request, sandboxAnswerInput);
  const { id } = request.params as { readonly id?: unknown };
  const found = isTypeId(id, 'esc') ? await readEscalation(deps.sql, accountId, id) : null;
  try {
    await requireAgentSecret(deps.sql, { accountId, mandateId: found?.mandateId ?? NO_MANDATE, secret });
  } catch (error) {
    if (error instanceof ProblemError && error.code === 'not_found') throw unknownEscalation();
    throw error;
  }
  if (found === null) throw unknownEscalation();
  return { escalationId: found.id, decidedBy: accountId, reason: null };
}

function taken(settlement: Settlement): void {
  if (settlement.taken) return;
  if (settlement.status === null) throw unknownEscalation();
  throw new ProblemError('conflict', `The escalation is not pending any more: it is ${settlement.status}.`);
}

function unknownEscalation(): ProblemError {
  return new ProblemError('not_found', 'There is no escalation of a sandbox mandate with this agent secret.');
}
