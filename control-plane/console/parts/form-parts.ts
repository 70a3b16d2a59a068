import { CSRF_FIELD } from '../csrf.ts';
import { attributes, type Fragment, type Html, html } from '../html.ts';
import type { Visit } from '../visit.ts';

/** What a form shows again after it was refused: what was typed, and what is wrong with each field. */
export interface FormState {
  readonly values: Readonly<Record<string, string>>;
  readonly errors: Readonly<Record<string, string>>;
}

/** A form that nobody has filled in yet. */
export function emptyForm(values: Readonly<Record<string, string>> = {}): FormState {
  return { values, errors: {} };
}

/** A form that posts; it carries the visit's CSRF token. */
export function form(visit: Pick<Visit, 'csrf'>, action: string, body: Fragment, name = 'form'): Html {
  return html`<form class="${name}" method="post" action="${action}" novalidate>
<input type="hidden" name="${CSRF_FIELD}" value="${visit.csrf}">${body}</form>`;
}

/** A form of one button, for rows and menus; `fields` are hidden. */
export function buttonForm(
  visit: Pick<Visit, 'csrf'>,
  action: string,
  label: Fragment,
  more: { readonly kind?: string; readonly fields?: Readonly<Record<string, string>> } = {},
): Html {
  const hidden = Object.entries(more.fields ?? {}).map(
    ([name, value]) => html`<input type="hidden" name="${name}" value="${value}">`,
  );
  const button = html`<button type="submit" class="button ${more.kind ?? ''}">${label}</button>`;
  return form(visit, action, [hidden, button], 'inline');
}

/** The button that sends a form. */
export function submit(label: string, kind: 'primary' | 'danger' | 'danger primary' | '' = 'primary'): Html {
  return html`<div class="actions"><button type="submit" class="button ${kind}">${label}</button></div>`;
}

/** A field's words, and what the browser may know about it. */
export interface FieldOptions {
  readonly label: string;
  readonly hint?: Fragment;
  readonly type?: 'text' | 'email' | 'password' | 'number' | 'date' | 'datetime-local' | 'search';
  readonly autocomplete?: string;
  readonly inputmode?: 'numeric' | 'decimal' | 'email' | 'text';
  readonly required?: boolean;
  readonly autofocus?: boolean;
  readonly maxlength?: number;
  readonly placeholder?: string;
  /** Text that machines read: monospace, without spell checking. */
  readonly code?: boolean;
  /** Shown again after a refusal; secrets are not. */
  readonly keep?: boolean;
}

/** A line of text with its label, hint and error. */
export function textField(state: FormState, name: string, options: FieldOptions): Html {
  const keep = options.keep ?? options.type !== 'password';
  const input = html`<input ${attributes({
    ...inputAttributes(state, name, options),
    type: options.type ?? 'text',
    value: keep ? (state.values[name] ?? '') : null,
  })}>`;
  return framed(state, name, options, input);
}

/** Several lines of text. */
export function textArea(state: FormState, name: string, options: FieldOptions & { readonly rows?: number }): Html {
  const given = { ...inputAttributes(state, name, options), rows: options.rows ?? 4 };
  // The first line break within a textarea is not part of its text.
  const input = html`<textarea ${attributes(given)}>
${state.values[name] ?? ''}</textarea>`;
  return framed(state, name, options, input);
}

/** A choice from a list. */
export function selectField(
  state: FormState,
  name: string,
  options: FieldOptions,
  choices: readonly (readonly [value: string, label: string])[],
): Html {
  const items = choices.map(
    ([value, label]) =>
      html`<option ${attributes({ value, selected: state.values[name] === value })}>${label}</option>`,
  );
  const input = html`<select ${attributes(inputAttributes(state, name, options))}>${items}</select>`;
  return framed(state, name, options, input);
}

/** One box of a group, or one alone; a form that has it sends `on`. */
export interface CheckOption {
  readonly name: string;
  readonly label: Fragment;
  readonly hint?: Fragment;
}

/** Boxes under one heading; `name` is where their error is found. */
export function checkGroup(
  state: FormState,
  name: string,
  legend: string,
  boxes: readonly CheckOption[],
  hint: Fragment = null,
): Html {
  const error = state.errors[name];
  const described = [hint === null ? '' : `${id(name)}-hint`, error === undefined ? '' : `${id(name)}-error`];
  return html`<fieldset class="field" ${attributes({ 'aria-describedby': described.join(' ').trim() || null })}>
<legend>${legend}</legend>${hint === null ? null : html`<p class="hint" id="${id(name)}-hint">${hint}</p>`}
${errorLine(state, name)}${boxes.map((box) => check(state, box))}</fieldset>`;
}

/** One box with its label. */
export function check(state: FormState, { name, label, hint }: CheckOption): Html {
  const own = id(name);
  return html`<div class="check"><input ${attributes({
    type: 'checkbox',
    id: own,
    name,
    value: 'on',
    checked: state.values[name] === 'on',
    'aria-describedby': hint === undefined ? null : `${own}-hint`,
  })}><label for="${own}">${label}${
    hint === undefined ? null : html`<span class="hint muted small" id="${own}-hint">${hint}</span>`
  }</label></div>`;
}

function framed(state: FormState, name: string, { label, hint }: FieldOptions, input: Html): Html {
  return html`<div class="field"><label for="${id(name)}">${label}</label>${
    hint === undefined ? null : html`<p class="hint" id="${id(name)}-hint">${hint}</p>`
  }${input}${errorLine(state, name)}</div>`;
}

function errorLine(state: FormState, name: string): Fragment {
  const error = state.errors[name];
  return error === undefined ? null : html`<p class="wrong" id="${id(name)}-error">${error}</p>`;
}

function inputAttributes(state: FormState, name: string, options: FieldOptions) {
  const wrong = state.errors[name] !== undefined;
  const described = [options.hint === undefined ? '' : `${id(name)}-hint`, wrong ? `${id(name)}-error` : ''];
  const optional = {
    autocomplete: options.autocomplete,
    inputmode: options.inputmode,
    maxlength: options.maxlength,
    placeholder: options.placeholder,
    ...(options.code === true ? { spellcheck: 'false', autocapitalize: 'none' } : {}),
  };
  return {
    class: options.code === true ? 'input code' : 'input',
    id: id(name),
    name,
    required: options.required ?? false,
    autofocus: options.autofocus ?? false,
    'aria-invalid': wrong ? 'true' : null,
    'aria-describedby': described.join(' ').trim() || null,
    ...optional,
  };
}

/** The identifier of a field: its name, with what an identifier should not have taken out. */
function id(name: string): string {
  return `f-${name.replaceAll(/[^A-Za-z0-9-]+/g, '-')}`;
}
