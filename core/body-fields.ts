import { z } from 'zod';
import { isActionType, isContextDigest, isCounterparty } from './action.ts';
import { ACTION_TYPE_MAX_CHARACTERS, COUNTERPARTY_MAX_CHARACTERS } from './limits.ts';
import { isCurrency } from './money.ts';
import { isTypeId, type TypeId, type TypeIdPrefix } from './type-id.ts';

/*
 * Fields that several bodies have. What a schema checks by a function is also said in its metadata, in the terms of
 * JSON Schema, so that the published description (GET /api/openapi.json) says what is checked.
 */

/** Zod: an action type (contract §2). */
export const actionTypeField = z.string().refine(isActionType, 'must be an action type such as payments.create').meta({
  description: 'An action type: segments of a-z 0-9 _ - joined by dots.',
  minLength: 1,
  maxLength: ACTION_TYPE_MAX_CHARACTERS,
  pattern: '^[a-z0-9_-]+(?:\\.[a-z0-9_-]+)*$',
});

/** Zod: a currency (contract §1). */
export const currencyField = z
  .string()
  .refine(isCurrency, 'must be an ISO 4217 code in upper case, such as EUR')
  .meta({ description: 'An ISO 4217 code in upper case.', pattern: '^[A-Z]{3}$' });

/** Zod: a counterparty, normalised to NFC (contract §2). */
export const counterpartyField = z
  .string()
  .transform((text) => text.normalize('NFC'))
  .refine(isCounterparty, 'must be 1 to 256 characters')
  .meta({
    description: 'Who the action is with, compared exactly after NFC; without control characters.',
    minLength: 1,
    maxLength: COUNTERPARTY_MAX_CHARACTERS,
  });

/** Zod: the `ctx` of a presentation (contract §2). */
export const contextDigestField = z
  .string()
  .refine(isContextDigest, 'must be the ctx of the presentation (sha-256:…)')
  .meta({
    description: 'sha-256: and the hex SHA-256 of the JCS (RFC 8785) of the action.',
    pattern: '^sha-256:[0-9a-f]{64}$',
  });

/** The only spelling of an identifier of this kind, as a regular expression. */
export function typeIdPattern(prefix: TypeIdPrefix): string {
  return `^${prefix}_[0-7][0-9a-hjkmnp-tv-z]{25}$`;
}

/** Zod: an identifier of this kind; `of` says whose, as in "a mandate". */
export function typeIdField<P extends TypeIdPrefix>(prefix: P, of: string) {
  return z
    .string()
    .refine((text): text is TypeId<P> => isTypeId(text, prefix), `must be ${of}'s id (${prefix}_…)`)
    .meta({ description: `The identifier of ${of}.`, pattern: typeIdPattern(prefix) });
}
