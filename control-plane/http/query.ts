import type { FastifyRequest } from 'fastify';
import { z } from 'zod';
import { invalidFields } from '../../core/body-value.ts';
import { isTypeId, type TypeIdPrefix } from '../../core/type-id.ts';

/**
 * The query of a request as its schema says; names that the schema does not know are refused.
 *
 * @throws ProblemError 422 `invalid`, naming each field and what to send instead
 */
export function readQuery<T>(request: FastifyRequest, schema: z.ZodType<T>): T {
  const parsed = schema.safeParse({ ...(request.query as Record<string, unknown>) });
  if (parsed.success) return parsed.data;
  throw invalidFields(
    parsed.error.issues.map((issue) => ({ field: issue.path.join('.') || '(query)', message: issue.message })),
  );
}

/** Zod: a whole number within bounds, written in digits without a leading zero. */
export function wholeQuery(min: number, max: number) {
  return z.string().transform((text, context) => {
    const number = /^(0|[1-9][0-9]{0,15})$/.test(text) ? Number(text) : Number.NaN;
    if (number >= min && number <= max) return number;
    context.addIssue({ code: 'custom', message: `must be a whole number from ${min} to ${max}` });
    return z.NEVER;
  });
}

/** Zod: an identifier of this kind. */
export function idQuery(prefix: TypeIdPrefix) {
  return z.string().refine((text) => isTypeId(text, prefix), `must be an identifier such as ${prefix}_…`);
}
