import type { FastifyInstance } from 'fastify';
import { z } from 'zod';
import { actionTypeField, contextDigestField, counterpartyField, currencyField } from '../../core/body-fields.ts';
import { decimalText } from '../../core/body-value.ts';
import { apiKeyOf } from '../api/api-keys.ts';
import { bookByToken } from '../decisions/book-by-token.ts';
import type { RouteDependencies } from '../http/dependencies.ts';
import { readBody } from '../http/request.ts';
import { bookConsumption } from './book.ts';

/** The body of POST /api/v1/consumptions (interface.md). */
export const consumptionBody = z.strictObject({
  consumption_token: z.string(),
  final_amount: decimalText.optional(),
  currency: currencyField.optional(),
  action_type: actionTypeField.optional(),
  counterparty: counterpartyField.optional(),
  context_digest: contextDigestField.optional(),
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
