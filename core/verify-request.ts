import { z } from 'zod';
import { type Action, isActionType, isCounterparty } from './action.ts';
import { actionTypeField, counterpartyField, currencyField } from './body-fields.ts';
import { type BodyValue, bodyValue, DecimalText, decimalText, fieldProblems, invalidFields } from './body-value.ts';
import { bareObject } from './jcs.ts';
import { isJsonNumber, isJsonObject, type JsonNode, type JsonObject } from './json.ts';
import { isCurrency, minorUnits } from './money.ts';

/** An action as a caller writes it (interface.md, "Action"); unknown members are refused (contract §2). */
export const actionInput = z.strictObject({
  type: actionTypeField,
  amount: z.strictObject({ value: decimalText, currency: currencyField }),
  counterparty: counterpartyField.optional(),
});
export type ActionInput = z.infer<typeof actionInput>;

/** The action with its amount in minor units; @throws ProblemError 422 where the amount is not one of its currency. */
export function actionOf(input: ActionInput, field = 'action'): Action {
  const { value, currency } = input.amount;
  const reading = minorUnits(value.text, currency, 'major');
  if (!reading.ok) throw invalidFields([{ field: `${field}.amount.value`, message: reading.message }]);
  return { type: input.type, amount_minor: reading.minor, currency, counterparty: input.counterparty ?? null };
}

/** Far above what an escalation token has: any other text is unknown, and this much of one is enough to say so. */
const TOKEN_MAX_CHARACTERS = 256;

/** The body of POST /api/v1/verify; its presentation is read, and refused, with a decision (MD-101). */
export const verifyBody = z.strictObject({
  presentation: z.unknown(),
  action: actionInput,
  escalation_token: z.string().min(1, 'must not be empty').max(TOKEN_MAX_CHARACTERS, 'is too long').optional(),
});

/** What POST /api/v1/verify asks; the presentation is not read yet. */
export interface VerifyRequest {
  readonly presentation: JsonObject;
  readonly action: Action;
  readonly escalationToken: string | null;
}

/**
 * Reads the body of POST /api/v1/verify; @throws ProblemError 422 `invalid`, naming each field and the fix.
 *
 * A body without mistakes is read by hand, at a tenth of the cost; whatever is wrong with others, the schema says.
 */
export function readVerifyRequest(node: JsonNode): VerifyRequest {
  return faultless(node) ?? readBySchema(node);
}

/** The request, where it is surely what `verifyBody` accepts; null where that must be asked. */
function faultless(node: JsonNode): VerifyRequest | null {
  if (!isJsonObject(node)) return null;
  const [presentation, action, token] = [node.get('presentation'), node.get('action'), node.get('escalation_token')];
  if (!isJsonObject(presentation) || !isJsonObject(action)) return null;
  if (token !== undefined && (typeof token !== 'string' || token === '' || token.length > TOKEN_MAX_CHARACTERS)) {
    return null;
  }
  if (node.size !== (token === undefined ? 2 : 3)) return null;
  const input = faultlessAction(action);
  return input === null ? null : { presentation, action: actionOf(input), escalationToken: token ?? null };
}

function faultlessAction(node: JsonObject): ActionInput | null {
  const [type, amount, given] = [node.get('type'), node.get('amount'), node.get('counterparty')];
  if (typeof type !== 'string' || !isActionType(type) || !isJsonObject(amount) || amount.size !== 2) return null;
  const [value, currency] = [amount.get('value'), amount.get('currency')];
  if (!isJsonNumber(value) || typeof currency !== 'string' || !isCurrency(currency)) return null;
  const read = { type, amount: { value: new DecimalText(value.text), currency } };
  if (given === undefined) return node.size === 2 ? read : null;
  if (typeof given !== 'string' || node.size !== 3) return null;
  const counterparty = given.normalize('NFC');
  return isCounterparty(counterparty) ? { ...read, counterparty } : null;
}

function readBySchema(node: JsonNode): VerifyRequest {
  const presentation = isJsonObject(node) ? node.get('presentation') : undefined;
  const parsed = verifyBody.safeParse(isJsonObject(node) ? shallow(node) : bodyValue(node));
  const fields = parsed.success ? [] : fieldProblems(parsed.error);
  if (!isJsonObject(presentation)) {
    fields.unshift({ field: 'presentation', message: 'must be the presentation, an object, as it was signed' });
  }
  if (!parsed.success || fields.length > 0 || !isJsonObject(presentation)) throw invalidFields(fields);
  const { action, escalation_token: token } = parsed.data;
  return { presentation, action: actionOf(action), escalationToken: token ?? null };
}

/** The body without its presentation, whose members are read elsewhere. */
function shallow(node: JsonObject): { [name: string]: BodyValue } {
  const body = bareObject<BodyValue>();
  for (const [name, value] of node) body[name] = name === 'presentation' ? null : bodyValue(value);
  return body;
}
