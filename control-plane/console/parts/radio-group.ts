import { attributes, type Fragment, type Html, html } from '../html.ts';
import type { FormState } from './form-parts.ts';

/** One of several, of which one is chosen. */
export interface RadioOption {
  readonly value: string;
  readonly label: string;
  readonly hint: string;
}

/** A choice of one, all of it on the page. */
export function radioGroup(state: FormState, name: string, legend: string, options: readonly RadioOption[]): Html {
  const error = state.errors[name];
  const items = options.map(({ value, label, hint }) => {
    const own = `f-${name}-${value}`;
    const given = {
      ...{ type: 'radio', id: own, name, value, checked: state.values[name] === value },
      'aria-describedby': `${own}-hint`,
    };
    return html`<div class="check"><input ${attributes(given)}><label for="${own}">${label}<span
class="hint muted small" id="${own}-hint">${hint}</span></label></div>`;
  });
  const wrong: Fragment = error === undefined ? null : html`<p class="wrong" id="f-${name}-error">${error}</p>`;
  const described = attributes({ 'aria-describedby': error === undefined ? null : `f-${name}-error` });
  return html`<fieldset class="field" ${described}><legend>${legend}</legend>${wrong}${items}</fieldset>`;
}
