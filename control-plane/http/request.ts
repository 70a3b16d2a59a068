import type { FastifyRequest } from 'fastify';
import { z } from 'zod';
import { type FieldProblem, ProblemError } from '../../core/errors.ts';
import type { JsonNode } from '../../core/json.ts';
import { isTypeId, type TypeIdPrefix } from '../../core/type-id.ts';
import { type BodyValue, DecimalText } from './decimal.ts';

/** A parsed body as plain values; names become own properties of objects without a prototype. */
export function bodyValue(node: JsonNode): BodyValue {
  if (node === null || typeof node === 'boolean' || typeof node === 'string') return node;
  if (Array.isArray(node)) return node.map(bodyValue);
  if (node instanceof Map) {
    const object: { [name: string]: BodyValue } = Object.create(null);
    for (const [name, value] of node) object[name] = bodyValue(value);
    return object;
  }
  return new DecimalText((node as { readonly text: string }).text);
}

/**
 * The body of a request as its schema says.
 *
 * @throws ProblemError 422 `invalid`, naming each field and what to send instead
 */
export function readBody<T>(request: FastifyRequest, schema: z.ZodType<T>): T {
  const parsed = schema.safeParse(request.body ?? Object.create(null));
  if (parsed.success) return parsed.data;
  throw invalid(
    parsed.error.issues.map((issue) => ({ field: issue.path.join('.') || '(body)', message: issue.message })),
  );
}

/** The 422 that names these fields. */
export function invalid(fields: readonly FieldProblem[]): ProblemError {
  const detail = fields.map(({ field, message }) => `${field}: ${message}`).join('; ');
  return new ProblemError('invalid', detail, { fields });
}

/** A path parameter that is an identifier of this kind; anything else is 404, like one that does not exist. */
export function idParam<P extends TypeIdPrefix>(request: FastifyRequest, prefix: P): string {
  const id = (request.params as { readonly id?: unknown }).id;
  if (isTypeId(id, prefix)) return id;
  throw new ProblemError('not_found', 'There is nothing with this identifier.');
}

/** Zod: a JSON number as its digits. */
export const decimalText = z.custom<DecimalText>((value) => value instanceof DecimalText, 'must be a JSON number');

/** Zod: a whole JSON number within bounds, as a number. */
export function wholeNumber(min: number, max: number) {
  return decimalText.transform((value, context) => {
    const number = /^(0|[1-9][0-9]{0,15})$/.test(value.text) ? Number(value.text) : Number.NaN;
    if (number >= min && number <= max) return number;
    context.addIssue({ code: 'custom', message: `must be a whole number from ${min} to ${max}` });
    return z.NEVER;
  });
}
