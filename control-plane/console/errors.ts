import { PROBLEMS, type ProblemCode, type ProblemError } from '../../core/errors.ts';
import { html } from './html.ts';
import { buttonLink, column, heading, notice } from './parts/page-parts.ts';
import { CONSOLE_PREFIX } from './paths.ts';
import { serviceText } from './service-text.ts';
import { type PageAnswer, page, type Visit } from './visit.ts';
import type { Words } from './words.ts';

/** The page of an error: what happened and what can be done, never its cause. */
export function errorPage(visit: Visit, problem: ProblemError): PageAnswer {
  const { words, request, session } = visit;
  const [title, text] = explained(words, problem);
  const ours = problem.status >= 500;
  const reference = ours ? html`<p class="muted small">${words.errors.reference(request.id)}</p>` : null;
  const back = buttonLink(words.errors.home, CONSOLE_PREFIX);
  const body = column(
    heading(title),
    notice(ours ? 'bad' : 'warn', text),
    reference,
    html`<div class="actions">${back}</div>`,
  );
  return page(session === null ? null : 'account', title, body, { status: problem.status });
}

/** What a problem says in a form: the words for its code, else its own. */
export function problemText(words: Words, problem: ProblemError): string {
  return explained(words, problem)[1];
}

function explained(words: Words, problem: ProblemError): [title: string, text: string] {
  const { errors } = words;
  const seconds = problem.retryAfterSeconds ?? 1;
  switch (problem.code satisfies ProblemCode) {
    case 'not_found':
    case 'method_not_allowed':
      return [errors.notFound, errors.notFoundText];
    case 'forbidden':
      return [errors.forbidden, errors.forbiddenText];
    case 'rate_limited':
      return [errors.tooMany, errors.tooManyText(seconds)];
    case 'locked_out':
      return [errors.tooMany, errors.locked(seconds)];
    case 'not_decidable':
    case 'overloaded':
      return [errors.heading, errors.away];
    case 'payload_too_large':
      return [errors.heading, errors.tooLarge];
    case 'malformed_form':
    case 'malformed_request':
    case 'unsupported_media_type':
      return [errors.heading, errors.malformed];
    case 'internal':
      return [errors.heading, errors.internal];
    default:
      return [errors.heading, serviceText(words, problem.detail === '' ? PROBLEMS[problem.code][1] : problem.detail)];
  }
}
