import { ProblemError } from './errors.ts';
import { FormSyntaxProblem, parseStrictForm } from './form.ts';
import { JsonSyntaxProblem, parseStrictJson } from './json.ts';
import type { RequestBody } from './tool-mapping.ts';

/** How a body is read: parsed strictly, or passed on as bytes nobody looks into. */
export type BodyKind = 'none' | 'json' | 'form' | 'opaque';

/**
 * What kind of body a `Content-Type` announces; null is none.
 *
 * @throws ProblemError 415 for a charset that would have to be undone first (contract §7)
 */
export function contentKind(contentType: string | null): Exclude<BodyKind, 'none'> {
  const [type = '', ...parameters] = (contentType ?? '').split(';');
  const media = type.trim().toLowerCase();
  const json = media === 'application/json' || media === 'text/json' || media.endsWith('+json');
  const form = media === 'application/x-www-form-urlencoded';
  if (!json && !form) return 'opaque';
  for (const parameter of parameters) {
    const [name = '', value = ''] = parameter.split('=');
    const charset = value.trim().replace(/^"|"$/g, '').toLowerCase();
    if (name.trim().toLowerCase() === 'charset' && charset !== 'utf-8' && charset !== 'utf8') {
      throw new ProblemError('unsupported_media_type', 'The only charset that is accepted is utf-8.');
    }
  }
  return json ? 'json' : 'form';
}

/** Parses bytes as their kind says; @throws ProblemError 400 with where it went wrong, never with what was there. */
export function parseBody(kind: BodyKind, bytes: Buffer): RequestBody {
  if (bytes.length === 0 || kind === 'none') return { kind: 'none' };
  try {
    if (kind === 'json') return { kind: 'json', node: parseStrictJson(bytes) };
    if (kind === 'form') return { kind: 'form', fields: parseStrictForm(bytes) };
  } catch (error) {
    if (error instanceof JsonSyntaxProblem) throw refused('malformed_json', error);
    if (error instanceof FormSyntaxProblem) throw refused('malformed_form', error);
    throw error;
  }
  return { kind: 'opaque' };
}

function refused(code: 'malformed_json' | 'malformed_form', problem: JsonSyntaxProblem | FormSyntaxProblem) {
  return new ProblemError(code, `${problem.message} (${problem.code}, at ${problem.offset})`);
}
