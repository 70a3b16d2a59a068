import { FRESH_FACTOR_MS } from '../../accounts/sessions.ts';
import { type Fragment, type Html, html } from '../html.ts';
import { type FormState, form, textArea } from '../parts/form-parts.ts';
import { passkeyForm } from '../parts/passkey-form.ts';
import { APPROVALS_PATH } from '../paths.ts';
import { factorField, isFactorFresh } from '../session.ts';
import type { ConsoleDependencies, SignedInVisit } from '../visit.ts';

/** The longest reason of an answer, in characters. */
export const REASON_MAX_CHARACTERS = 500;

/** How old the second factor of an answer may be, in milliseconds. */
export function approvalFactorMs({ approvalFactorMs: set }: ConsoleDependencies): number {
  return set ?? FRESH_FACTOR_MS;
}

/**
 * Yes or no, within reach wherever the page stands. Enter in a field presses neither: the form's first button is one
 * that cannot be pressed.
 */
export function answerForm(
  visit: SignedInVisit,
  id: string,
  more: { readonly state: FormState; readonly above: Fragment; readonly passkeys: boolean },
): Html {
  const { words, deps } = visit;
  const text = words.approvals;
  const { state, above, passkeys } = more;
  const path = `${APPROVALS_PATH}/${id}`;
  const age = approvalFactorMs(deps);
  const told = state.errors['answer'];
  const open = state.errors['reason'] !== undefined || (state.values['reason'] ?? '') !== '';
  const reason = textArea(state, 'reason', {
    label: text.reason,
    hint: text.reasonHint,
    maxlength: REASON_MAX_CHARACTERS,
    rows: 2,
  });
  const fields = [
    html`<button type="submit" hidden disabled></button>`,
    factorField(visit, state, age),
    open
      ? html`<details open><summary>${text.reasonAdd}</summary>${reason}</details>`
      : html`<details><summary>${text.reasonAdd}</summary>${reason}</details>`,
    told === undefined ? null : html`<p class="wrong">${told}</p>`,
    html`<div class="answers"><button type="submit" class="button danger" name="answer" value="reject">${
      text.reject
    }</button>
<button type="submit" class="button primary" name="answer" value="approve">${text.approve}</button></div>`,
  ];
  const passkey =
    passkeys && age > 0 && !isFactorFresh(visit, age)
      ? passkeyForm(visit, {
          use: 'get',
          begin: '/console/passkeys/challenge',
          finish: '/console/passkeys/confirm',
          label: text.passkey,
          fields: { next: path },
        })
      : null;
  return html`<section class="answer" aria-labelledby="answer-title"><h2 class="hidden" id="answer-title">${
    text.answerTitle
  }</h2>${above}${passkey}${form(visit, path, fields)}</section>`;
}
