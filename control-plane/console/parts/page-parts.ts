import { type Fragment, Html, html } from '../html.ts';
import { type IconName, icon } from './icon.ts';

/** How something is: in order, to be watched, wrong, plain news, or nothing of these. */
export type Tone = 'good' | 'warn' | 'bad' | 'info' | 'plain';

/** The column of a page below its heading. */
export function column(...parts: readonly Fragment[]): Html {
  return html`<div class="column">${parts}</div>`;
}

/** A page's heading, what it is about in one sentence, and what can be done here. */
export function heading(title: string, lead: Fragment = null, actions: Fragment = null): Html {
  const below = lead === null ? null : html`<p class="muted">${lead}</p>`;
  return html`<div class="heading"><div><h1>${title}</h1>${below}</div>
${actions === null ? null : html`<div class="actions">${actions}</div>`}</div>`;
}

/** The way back to the list that a page belongs to. */
export function crumbs(label: string, path: string): Html {
  return html`<p class="crumbs"><a href="${path}">← ${label}</a></p>`;
}

/** A card with its own heading. */
export function card(title: string, body: Fragment, lead: Fragment = null): Html {
  return html`<section class="card"><header><h2>${title}</h2>${
    lead === null ? null : html`<p class="muted">${lead}</p>`
  }</header>${body}</section>`;
}

/** A short word with a colour; the word alone says it. */
export function badge(tone: Tone, text: string): Html {
  return html`<span class="badge ${tone}">${text}</span>`;
}

/** Something to be read before the rest. */
export function notice(tone: Exclude<Tone, 'plain'>, title: string, body: Fragment = null): Html {
  return html`<div class="notice ${tone}">${icon(tone satisfies IconName)}<strong>${title}</strong>${
    body === null ? null : html`<div>${body}</div>`
  }</div>`;
}

/** What stands where a list has nothing yet: what would be here, and the next step. */
export function emptyState(title: string, text: string, action: Fragment = null): Html {
  return html`<section class="empty"><h2>${title}</h2><p>${text}</p>${action}</section>`;
}

/** A link that looks like a button. */
export function buttonLink(label: string, path: string, primary = false): Html {
  return html`<a class="${primary ? 'button primary' : 'button'}" href="${path}">${label}</a>`;
}

/** Names and values. */
export function facts(rows: readonly (readonly [name: string, value: Fragment])[]): Html {
  return html`<dl class="facts">${rows.map(([name, value]) => html`<dt>${name}</dt><dd>${value}</dd>`)}</dl>`;
}

/** A secret in its own line with a button that copies it; `id` is unique on its page. */
export function secretLine(
  id: string,
  secret: string,
  words: { readonly copy: string; readonly copied: string },
): Html {
  return html`<div class="secret"><code id="${id}">${secret}</code>
<button type="button" class="button" data-needs-script data-copy="${id}" data-copied="${words.copied}">${
    words.copy
  }</button></div>`;
}

/** One part of a bar: how much of `total`, and what it is. */
export interface BarPart {
  readonly kind: 'booked' | 'reserved' | 'unknown' | 'added';
  readonly amount: number;
  readonly label: string;
}

/** Parts of a whole as a bar, with the same in words below it. */
export function bar(total: number, parts: readonly BarPart[]): Html {
  let from = 0;
  const scale = Math.max(total, ...parts.map((part) => part.amount), 1);
  const rectangles = parts.map(({ kind, amount }) => {
    const [x, width] = [(from / scale) * 100, (Math.max(0, amount) / scale) * 100];
    from += amount;
    return html`<rect class="${kind}" x="${x.toFixed(3)}" y="0" width="${width.toFixed(3)}" height="10"/>`;
  });
  return html`<div class="bar">
<svg viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">${rectangles}</svg>
<div class="legend">${parts.map(({ kind, label }) => html`<span class="${kind}">${label}</span>`)}</div></div>`;
}

/** A column of a table; `end`: numbers and buttons. */
export interface Column {
  readonly label: string;
  readonly kind?: 'main' | 'end';
}

/** A table that becomes a list of cards on a phone; the caption says what it lists. */
export function table(caption: string, columns: readonly Column[], rows: readonly (readonly Fragment[])[]): Html {
  const head = columns.map(({ label, kind }) => {
    const text = label === '' ? html`<span class="hidden">${caption}</span>` : label;
    return html`<th scope="col" class="${kind === 'end' ? 'end' : ''}">${text}</th>`;
  });
  const body = rows.map((row) => {
    return html`<tr>${row.map((cell, at) => {
      const { label = '', kind } = columns[at] ?? {};
      const name = kind === 'end' ? 'end' : kind === 'main' ? 'main-cell' : '';
      return label === ''
        ? html`<td class="${name}">${cell}</td>`
        : html`<td class="${name}" data-label="${label}"><div>${cell}</div></td>`;
    })}</tr>`;
  });
  return html`<div class="table cards" tabindex="0" role="group" aria-label="${caption}"><table>
<caption class="hidden">${caption}</caption><thead><tr>${head}</tr></thead><tbody>${body}</tbody></table></div>`;
}

/** Links to the pages before and after, for lists that are read by key. */
export function pager(
  before: { label: string; path: string } | null,
  after: { label: string; path: string } | null,
): Html {
  if (before === null && after === null) return new Html('');
  const link = (one: { label: string; path: string } | null) =>
    one === null ? html`<span></span>` : buttonLink(one.label, one.path);
  return html`<nav class="pager">${link(before)}${link(after)}</nav>`;
}
