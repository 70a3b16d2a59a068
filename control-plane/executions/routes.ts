import type { FastifyInstance } from 'fastify';
import { z } from 'zod';
import { currencyField } from '../../core/body-fields.ts';
import { decimalText } from '../../core/body-value.ts';
import { apiKeyOf } from '../api/api-keys.ts';
import { bookByToken } from '../decisions/book-by-token.ts';
import type { RouteDependencies } from '../http/dependencies.ts';
import { readBody } from '../http/request.ts';
import { OUTCOMES, type OutcomeName, reportExecution } from './report.ts';

const REFERENCE_MAX_CHARACTERS = 256;

/** The body of POST /api/v1/executions (interface.md); `reservation_token` is the consumption token (contract §1). */
export const executionBody = z.strictObject({
  reservation_token: z.string(),
  outcome: z.enum(Object.keys(OUTCOMES) as [OutcomeName, ...OutcomeName[]]),
  executed_amount: decimalText.optional(),
  executed_currency: currencyField.optional(),
  external_ref: z
    .string()
    .min(1, 'must not be empty')
    .max(REFERENCE_MAX_CHARACTERS, `must be at most ${REFERENCE_MAX_CHARACTERS} characters`)
    .refine((text) => text.isWellFormed() && !/\p{Cc}/u.test(text), 'must not hold control characters')
    .meta({ description: 'What it is called elsewhere; without control characters.' })
    .optional(),
});

/** POST /api/v1/executions: how an allowed action went (contract §5). */
export function registerExecutionRoutes(app: FastifyInstance, deps: RouteDependencies): void {
  app.post('/api/v1/executions', { config: { scope: 'executions:write' } }, async (request, reply) => {
    const { reservation_token: token, ...asked } = readBody(request, executionBody);
    const { accountId } = apiKeyOf(request);
    const where = { accountId, token, field: 'reservation_token' };
    const { text, replayed } = await bookByToken(deps.booking, where, (context, authorisation) =>
      reportExecution(context, authorisation, asked),
    );
    if (replayed) reply.header('x-idempotent-replay', 'true');
    return reply.type('application/json; charset=utf-8').send(text);
  });
}
