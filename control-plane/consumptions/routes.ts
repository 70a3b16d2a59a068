import type { FastifyInstance } from 'fastify';
import { z } from 'zod';
import { isActionType, isContextDigest, isCounterparty } from '../../core/action.ts';
import { decimalText } from '../../core/body-value.ts';
import { isCurrency } from '../../core/money.ts';
import { apiKeyOf } from '../api/api-keys.ts';
import { bookByToken } from '../decisions/book-by-token.ts';
import type { RouteDependencies } from '../http/dependencies.ts';
import { readBody } from '../http/request.ts';
import { bookConsumption } from './book.ts';

/** The body of POST /api/v1/consumptions (interface.md). */
export const consumptionBody = z.strictObject({
  consumption_token: z.string(),
  final_amount: decimalText.optional(),
  currency: z.string().refine(isCurrency, 'must be an ISO 4217 code in upper case, such as EUR').optional(),
  action_type: z.string().refine(isActionType, 'must be an action type such as payments.create').optional(),
  counterparty: z
    .string()
    .transform((text) => text.normalize('NFC'))
    .refine(isCounterparty, 'must be 1 to 256 characters')
    .optional(),
  context_digest: z.string().refine(isContextDigest, 'must be the ctx of the presentation (sha-256:…)').optional(),
});

/** POST /api/v1/consumptions: books what an allowed action cost (contract §5). */
export function registerConsumptionRoutes(app: FastifyInstance, deps: RouteDependencies): void {
  app.post('/api/v1/consumptions', { config: { scope: 'consumptions:write' } }, async (request, reply) => {
    const { consumption_token: token, ...asked } = readBody(request, consumptionBody);
    const { accountId } = apiKeyOf(request);
    const where = { accountId, token, field: 'consumption_token' };
    const { text, replayed } = await bookByToken(deps.booking, where, (context, authorisation) =>
      bookConsumption(context, authorisation, asked),
    );
    if (replayed) reply.header('x-idempotent-replay', 'true');
    return reply.type('application/json; charset=utf-8').send(text);
  });
}
