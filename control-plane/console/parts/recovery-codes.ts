import { html } from '../html.ts';
import { CONSOLE_PREFIX } from '../paths.ts';
import { type PageAnswer, page, type Visit } from '../visit.ts';
import { buttonLink } from './page-parts.ts';

/** The page that shows recovery codes, once: the answer to the post that made them. */
export function recoveryCodesPage({ words }: Visit, codes: readonly string[]): PageAnswer {
  const { recovery } = words.accounts;
  const items = codes.map((code) => html`<li>${code}</li>`);
  const print = html`<button type="button" class="button" data-needs-script
data-print="">${words.shell.print}</button>`;
  const copy = html`<button type="button" class="button" data-needs-script data-copy="recovery-codes"
data-copied="${words.shell.copied}">${words.shell.copy}</button>`;
  const body = html`<section class="card"><header><h1>${recovery.title}</h1>
<p class="muted">${recovery.lead}</p></header>
<ol class="codes" id="recovery-codes">${items}</ol>
<div class="actions">${buttonLink(recovery.next, CONSOLE_PREFIX, true)}${copy}${print}</div></section>`;
  return page(null, recovery.title, body);
}
