import { CSRF_FIELD } from '../csrf.ts';
import type { Fragment } from '../html.ts';
import { type Html, html } from '../html.ts';
import type { Visit } from '../visit.ts';

/** What a passkey is asked for, and which posts begin and finish it. */
export interface PasskeyFormOptions {
  readonly use: 'create' | 'get';
  readonly begin: string;
  readonly finish: string;
  readonly label: string;
  readonly fields?: Readonly<Record<string, string>>;
  /** Fields that people fill in, above the button. */
  readonly above?: Fragment;
}

/** A button that asks the browser for a passkey; it needs a script, and is hidden without one. */
export function passkeyForm(visit: Visit, options: PasskeyFormOptions): Html {
  const { passkeyFailed } = visit.words.accounts;
  const hidden = Object.entries(options.fields ?? {}).map(
    ([name, value]) => html`<input type="hidden" name="${name}" value="${value}">`,
  );
  return html`<form class="form" method="post" action="${options.finish}" data-needs-script
data-passkey="${options.use}" data-begin="${options.begin}" data-finish="${options.finish}"
data-failed="${passkeyFailed}">
<input type="hidden" name="${CSRF_FIELD}" value="${visit.csrf}">${hidden}${options.above ?? null}
<p class="notice bad" role="alert" data-passkey-error hidden></p>
<div class="actions"><button type="submit" class="button">${options.label}</button></div></form>`;
}
