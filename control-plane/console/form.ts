import type { z } from 'zod';
import { fieldProblems } from '../../core/body-value.ts';
import { type FieldProblem, ProblemError } from '../../core/errors.ts';
import type { FormFields } from '../../core/form.ts';
import { CSRF_FIELD } from './csrf.ts';
import type { FormState } from './parts/form-parts.ts';
import { serviceText } from './service-text.ts';
import type { Visit } from './visit.ts';

/** A form as it was read: its value, or what to show again. */
export type ReadForm<T> =
  | { readonly ok: true; readonly value: T; readonly state: FormState }
  | { readonly ok: false; readonly state: FormState };

/** The fields of a post without the CSRF token; names are whole texts (`scopes[verify]`). */
export function formValues({ request }: Pick<Visit, 'request'>): Record<string, string> {
  const fields = request.body as FormFields | undefined;
  const values: Record<string, string> = Object.create(null);
  for (const [name, value] of fields ?? []) if (name !== CSRF_FIELD) values[name] = value;
  return values;
}

/** Reads a form of texts by its schema; what the schema does not know is refused. */
export function readForm<T>(visit: Pick<Visit, 'request' | 'words'>, schema: z.ZodType<T>): ReadForm<T> {
  const values = formValues(visit);
  const parsed = schema.safeParse({ ...values });
  if (parsed.success) return { ok: true, value: parsed.data, state: { values, errors: {} } };
  return { ok: false, state: refusedForm(values, inWords(visit, fieldProblems(parsed.error))) };
}

/**
 * What a form shows again after a noun refused it: a 422 names the fields. Any other error is thrown on.
 *
 * @throws whatever is no refusal of fields
 */
export function stateOfRefusal(visit: Pick<Visit, 'request' | 'words'>, error: unknown): FormState {
  if (!(error instanceof ProblemError) || error.code !== 'invalid') throw error;
  return refusedForm(formValues(visit), inWords(visit, error.fields));
}

/** What the service said of fields, in the words of the console. */
export function inWords({ words }: Pick<Visit, 'words'>, problems: readonly FieldProblem[]): FieldProblem[] {
  return problems.map(({ field, message }) => ({ field, message: serviceText(words, message) }));
}

/** A form with what is wrong with its fields, by name; one problem a field is enough. */
export function refusedForm(values: Readonly<Record<string, string>>, problems: readonly FieldProblem[]): FormState {
  const errors: Record<string, string> = Object.create(null);
  for (const { field, message } of problems) errors[field] ??= capitalised(message);
  return { values, errors };
}

/** The names of the boxes `group[…]` that are ticked. */
export function ticked(values: Readonly<Record<string, string>>, group: string): string[] {
  return Object.entries(values).flatMap(([name, value]) => {
    const inner = name.startsWith(`${group}[`) && name.endsWith(']') ? name.slice(group.length + 1, -1) : null;
    return inner !== null && value === 'on' ? [inner] : [];
  });
}

function capitalised(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
