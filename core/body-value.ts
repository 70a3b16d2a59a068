import { z } from 'zod';
import { type FieldProblem, ProblemError } from './errors.ts';
import { bareObject } from './jcs.ts';
import type { JsonNode } from './json.ts';

/** A JSON number as its source text: amounts are read from their digits, never through a double. */
export class DecimalText {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

/** A JSON body whose numbers kept their digits. */
export type BodyValue = null | boolean | string | DecimalText | BodyValue[] | { [name: string]: BodyValue };

/** A parsed body as plain values; names become own properties of objects that inherit nothing that has a name. */
export function bodyValue(node: JsonNode): BodyValue {
  if (node === null || typeof node === 'boolean' || typeof node === 'string') return node;
  if (Array.isArray(node)) return node.map(bodyValue);
  if (node instanceof Map) {
    const object = bareObject<BodyValue>();
    for (const [name, value] of node) object[name] = bodyValue(value);
    return object;
  }
  return new DecimalText((node as { readonly text: string }).text);
}

/** Zod: a JSON number as its digits; to whoever sends it, a number, and every one of them is an amount. */
export const decimalText = z
  .custom<DecimalText>((value) => value instanceof DecimalText, 'must be a JSON number')
  .meta({ type: 'number', minimum: 0, description: 'A plain decimal, read from its digits, never through a double.' });

/** Zod: a JSON number that is whole, not negative and exact, as a number. */
export const wholeNumber = decimalText
  .refine(({ text }) => /^(?:0|[1-9][0-9]{0,15})$/.test(text) && Number.isSafeInteger(Number(text)))
  .transform(({ text }) => Number(text));

/** What a schema found wrong, field by field. */
export function fieldProblems(error: z.ZodError): FieldProblem[] {
  return error.issues.map((issue) => ({ field: issue.path.join('.') || '(body)', message: issue.message }));
}

/** The 422 that names these fields. */
export function invalidFields(fields: readonly FieldProblem[]): ProblemError {
  const detail = fields.map(({ field, message }) => `${field}: ${message}`).join('; ');
  return new ProblemError('invalid', detail, { fields });
}
