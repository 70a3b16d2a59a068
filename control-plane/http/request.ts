import type { FastifyRequest } from 'fastify';
import { z } from 'zod';
import { decimalText, fieldProblems, invalidFields } from '../../core/body-value.ts';
import { ProblemError } from '../../core/errors.ts';
import { isTypeId, type TypeIdPrefix } from '../../core/type-id.ts';

/**
 * The body of a request as its schema says.
 *
 * @throws ProblemError 422 `invalid`, naming each field and what to send instead
 */
export function readBody<T>(request: FastifyRequest, schema: z.ZodType<T>): T {
  const parsed = schema.safeParse(request.body ?? Object.create(null));
  if (parsed.success) return parsed.data;
  throw invalidFields(fieldProblems(parsed.error));
}

/** A path parameter that is an identifier of this kind; anything else is 404, like one that does not exist. */
export function idParam<P extends TypeIdPrefix>(request: FastifyRequest, prefix: P): string {
  const id = (request.params as { readonly id?: unknown }).id;
  if (isTypeId(id, prefix)) return id;
  throw new ProblemError('not_found', 'There is nothing with this identifier.');
}

/** Zod: a whole JSON number within bounds, as a number. */
export function wholeNumber(min: number, max: number) {
  return decimalText
    .transform((value, context) => {
      const number = /^(0|[1-9][0-9]{0,15})$/.test(value.text) ? Number(value.text) : Number.NaN;
      if (number >= min && number <= max) return number;
      context.addIssue({ code: 'custom', message: `must be a whole number from ${min} to ${max}` });
      return z.NEVER;
    })
    .meta({ type: 'integer', minimum: min, maximum: max, description: 'A whole number.' });
}
