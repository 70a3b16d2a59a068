import { escaped } from '../../core/html-text.ts';

/**
 * Text that is HTML already: made by {@link html} from templates of ours, and by nothing else that takes foreign text.
 */
export class Html {
  readonly #text: string;

  constructor(text: string) {
    this.#text = text;
  }

  toString(): string {
    return this.#text;
  }
}

/** Attributes of an element, escaped and quoted; made by {@link attributes}. */
export class Attributes {
  readonly #text: string;

  constructor(text: string) {
    this.#text = text;
  }

  toString(): string {
    return this.#text;
  }
}

/** What a template may hold between elements: text is escaped, null, undefined and false are nothing. */
export type Fragment = Html | string | number | null | undefined | false | readonly Fragment[];
type Hole = Fragment | Attributes;

/** Where a value stands in a template. */
type Context = 'text' | 'attribute' | 'url' | 'url-part' | 'tag';

/**
 * A template of HTML that escapes by default.
 *
 * A value stands between elements (a string is escaped, an {@link Html} is not), within a double-quoted attribute
 * (escaped; addresses are checked, see {@link safeUrl}, parts of one are percent-encoded), or in a tag as
 * {@link Attributes}. Anywhere else (a tag's name, an unquoted attribute, `on…`, `style`, `srcdoc`, a comment, within
 * `script` or `style`) no value is safe.
 *
 * @throws TypeError where a template has a value at such a place: a mistake of the template, whatever the value is
 */
export function html(strings: TemplateStringsArray, ...values: readonly Hole[]): Html {
  const contexts = contextsOf(strings);
  let text = strings[0] ?? '';
  values.forEach((value, at) => {
    text += inContext(contexts[at] ?? 'text', value) + (strings[at + 1] ?? '');
  });
  return new Html(text);
}

/**
 * An address that a page may lead to: a path of this site, a part of this page, or `https:` and `http:` elsewhere.
 * Everything else (`javascript:`, `data:`, `//host`, what a browser would trim into one of them) becomes `#`.
 */
export function safeUrl(url: string): string {
  if (/[\0-\x20\x7f\\]/.test(url)) return '#';
  if (/^(?:\/(?!\/)|[#?])/.test(url)) return url;
  return /^https?:\/\/[^/]/i.test(url) ? url : '#';
}

const NAME = /^[a-z][a-z0-9-]*$/;

/**
 * Attributes by name: true stands for the bare name, false, null and undefined leave it out.
 *
 * @throws TypeError for a name that is none, or one whose value is code (`on…`, `style`, `srcdoc`)
 */
export function attributes(given: Readonly<Record<string, string | number | boolean | null | undefined>>): Attributes {
  const parts = Object.entries(given).flatMap(([name, value]) => {
    if (value === false || value === null || value === undefined) return [];
    if (!NAME.test(name)) throw new TypeError('an attribute without a name');
    const context = contextOfAttribute(name);
    return [value === true ? name : `${name}="${inContext(context, String(value))}"`];
  });
  return new Attributes(parts.join(' '));
}

/** Fragments with something between them. */
export function joined(parts: readonly Fragment[], between: Fragment): Html {
  return html`${parts.map((part, at) => (at === 0 ? part : [between, part]))}`;
}

function inContext(context: Context, value: Hole): string {
  if (context === 'tag') {
    if (value instanceof Attributes) return value.toString();
    throw new TypeError('a tag takes attributes()');
  }
  if (value === null || value === undefined || value === false) return '';
  if (context === 'text') return fragmentText(value);
  if (typeof value !== 'string' && typeof value !== 'number') throw new TypeError('an attribute takes text');
  const text = String(value);
  if (context === 'url-part') return encodeURIComponent(text.toWellFormed());
  return escaped(context === 'url' ? safeUrl(text) : text);
}

function fragmentText(value: Hole): string {
  if (value === null || value === undefined || value === false) return '';
  if (value instanceof Html) return value.toString();
  if (value instanceof Attributes) throw new TypeError('attributes stand within a tag');
  if (typeof value === 'string' || typeof value === 'number') return escaped(String(value));
  return value.map(fragmentText).join('');
}

const URL_ATTRIBUTES = new Set(['href', 'src', 'action', 'formaction', 'poster', 'cite', 'data', 'ping', 'background']);

function contextOfAttribute(name: string): Context {
  if (name.startsWith('on') || name === 'style' || name === 'srcdoc' || name === 'srcset' || name.includes(':')) {
    throw new TypeError(`no value is safe in the attribute ${name}`);
  }
  return URL_ATTRIBUTES.has(name) ? 'url' : 'attribute';
}

const known = new WeakMap<TemplateStringsArray, readonly Context[]>();

function contextsOf(strings: TemplateStringsArray): readonly Context[] {
  const before = known.get(strings);
  if (before !== undefined) return before;
  const contexts: Context[] = [];
  let state: State = OUTSIDE;
  strings.forEach((part, at) => {
    state = walked(state, part);
    if (at < strings.length - 1) contexts.push(contextAt(state));
  });
  if (state !== OUTSIDE) throw new TypeError('a template ends within a tag');
  known.set(strings, contexts);
  return contexts;
}

/** Where a walk through the text of a template is: the open tag's text so far, and the quote it is in. */
interface State {
  readonly tag: string | null;
  readonly quote: '"' | "'" | null;
}
const OUTSIDE: State = { tag: null, quote: null };

function walked(from: State, part: string): State {
  let { tag, quote } = from;
  for (const character of part) {
    if (tag === null) {
      if (character === '<') tag = '';
      continue;
    }
    if (quote === null && character === '>') {
      if (
        /^(?:script|style|textarea|title|xmp|iframe|noembed|noframes|plaintext)\b/i.test(tag) &&
        !RAW_TEXT.test(tag)
      ) {
        throw new TypeError(`no value is safe within ${tag}`);
      }
      tag = null;
      continue;
    }
    if (quote !== null) {
      if (character === quote) quote = null;
    } else if (character === '"' || character === "'") quote = character;
    tag += character;
  }
  return tag === null ? OUTSIDE : { tag, quote };
}

/** Elements whose text is not markup, but where an escaped value is as safe as elsewhere. */
const RAW_TEXT = /^(?:textarea|title)\b|^script [^>]*\bsrc="/i;

function contextAt({ tag, quote }: State): Context {
  if (tag === null) return 'text';
  if (tag === '' || tag.startsWith('!') || tag.startsWith('/')) throw new TypeError('no value is safe in a tag name');
  if (quote === "'") throw new TypeError('quote attributes with double quotes');
  if (quote === '"') {
    const [, name = '', before = ''] = /([^\s"'=<>/]+)="([^"]*)$/.exec(tag) ?? [];
    const context = contextOfAttribute(name.toLowerCase());
    return context === 'url' && before !== '' ? 'url-part' : context;
  }
  if (!/\s$/.test(tag)) throw new TypeError('an attribute is quoted, and a tag has a name');
  return 'tag';
}
