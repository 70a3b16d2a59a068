import { ICON_PATH, STYLE_PATH, scriptPath } from './assets.ts';
import { attributes, type Fragment, type Html, html } from './html.ts';
import { buttonForm } from './parts/form-parts.ts';
import { type IconName, icon } from './parts/icon.ts';
import { notice } from './parts/page-parts.ts';
import { APPROVALS_PATH, CONSOLE_PREFIX } from './paths.ts';
import type { PageAnswer, Section, Theme, Visit } from './visit.ts';
import { LANGUAGES, type Language } from './words.ts';

/** What the shell shows besides the page: numbers at entries of the navigation. */
export interface ShellFacts {
  readonly pendingApprovals: number;
}

/** The navigation: where each entry leads, in its order. */
const ENTRIES: readonly (readonly [section: Exclude<Section, 'account'>, path: string])[] = [
  ['overview', CONSOLE_PREFIX],
  ['approvals', APPROVALS_PATH],
  ['mandates', '/console/mandates'],
  ['gateways', '/console/gateways'],
  ['keys', '/console/keys'],
  ['evidence', '/console/evidence'],
  ['reconcile', '/console/reconcile'],
  ['settings', '/console/settings'],
];

/** A whole page as it is sent. */
export function renderPage(visit: Visit, answer: PageAnswer, shell: ShellFacts | null): string {
  const { words, language, theme } = visit;
  const framed = shell === null || answer.section === null ? entrance(visit, answer) : inShell(visit, answer, shell);
  const scripts = ['enhance' as const, ...answer.scripts].map(scriptPath);
  return html`<!doctype html>
<html ${attributes({ lang: language, 'data-theme': theme })}><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="${theme ?? 'light dark'}">
<title>${answer.title} · ${words.shell.product}</title>
<link rel="icon" type="image/svg+xml" href="${ICON_PATH}"><link rel="stylesheet" href="${STYLE_PATH}">
${scripts.map((path) => html`<script src="${path}" defer></script>`)}${refresh(answer)}</head>
<body><a class="skip" href="#content">${words.shell.skip}</a>${framed}</body></html>
`.toString();
}

function refresh({ refreshSeconds }: PageAnswer): Fragment {
  if (refreshSeconds === null) return null;
  return html`<noscript><meta http-equiv="refresh" content="${refreshSeconds}"></noscript>`;
}

function inShell(visit: Visit, answer: PageAnswer, shell: ShellFacts): Html {
  const { words, session } = visit;
  const links = navigation(visit, answer.section, shell);
  return html`<div class="shell"><header class="top">
<details class="menu pages"><summary>${icon('menu')}<span>${words.shell.menu}</span>${count(visit, shell)}</summary>
<nav class="panel" aria-label="${words.shell.navigation}">${links}</nav></details>
<a class="brand" href="${CONSOLE_PREFIX}">${icon('brand')}<span>${words.shell.product}</span></a>
<details class="menu"><summary>${icon('person')}<span class="hidden">${words.shell.accountMenu}</span></summary>
<div class="panel"><p class="label">${session?.email}</p>
<a class="button plain" href="/console/account">${words.shell.account}</a>
<a class="button plain danger" href="/console/stop">${words.stop.menu}</a>
${preferences(visit)}<hr>${buttonForm(visit, '/console/logout', words.shell.logout, { kind: 'full' })}</div>
</details></header>
<nav class="side" aria-label="${words.shell.navigation}">${links}</nav>
<main class="main" id="content" tabindex="-1">${flash(visit)}${answer.body}</main></div>`;
}

function entrance(visit: Visit, answer: PageAnswer): Html {
  return html`<div class="entrance"><a class="brand" href="${CONSOLE_PREFIX}">${icon('brand')}<span>${
    visit.words.shell.product
  }</span></a><main id="content" tabindex="-1">${flash(visit)}${answer.body}</main>
<footer>${preferences(visit)}</footer></div>`;
}

function navigation(visit: Visit, section: Section | null, shell: ShellFacts): Html {
  const { words } = visit;
  const items = ENTRIES.map(([name, path]) => {
    const current = name === section ? 'page' : null;
    const given = attributes({ href: path, 'aria-current': current });
    const label = html`<span>${words.shell.sections[name]}</span>`;
    const number = name === 'approvals' ? count(visit, shell) : null;
    return html`<li><a ${given}>${icon(name satisfies IconName)}${label}${number}</a></li>`;
  });
  return html`<ul class="nav">${items}</ul>`;
}

/** How many approvals wait; on a phone it stands at the menu as well, which hides the entry. */
function count({ words }: Visit, { pendingApprovals }: ShellFacts): Fragment {
  if (pendingApprovals === 0) return null;
  return html`<span class="count">${pendingApprovals}<span class="hidden"> ${words.shell.waiting}</span></span>`;
}

/** Language and theme: one button each, so that they need no script. */
function preferences(visit: Visit): Fragment {
  const { words, language, theme } = visit;
  const choice = (field: string, value: string, label: string, chosen: boolean, lang: string | null) =>
    html`<button ${attributes({
      type: 'submit',
      class: 'button small',
      name: field,
      value,
      lang,
      'aria-pressed': chosen ? 'true' : 'false',
    })}>${label}</button>`;
  const languages = (Object.keys(LANGUAGES) as Language[]).map((one) =>
    choice('language', one, LANGUAGES[one], one === language, one),
  );
  const themes = (['system', 'light', 'dark'] as const).map((one) =>
    choice('theme', one, words.shell.themes[one], (theme ?? 'system') === (one satisfies Theme | 'system'), null),
  );
  return html`<form method="post" action="/console/preferences" class="stack">
<input type="hidden" name="csrf" value="${visit.csrf}">
<input type="hidden" name="next" value="${pathOf(visit)}">
<div class="choices" role="group" aria-label="${words.shell.language}">${languages}</div>
<div class="choices" role="group" aria-label="${words.shell.theme}">${themes}</div></form>`;
}

/** Where a choice of language leads back to: a page that is read, never the address of a form. */
function pathOf({ request }: Visit): string {
  return request.method === 'GET' ? request.url : CONSOLE_PREFIX;
}

function flash({ flash: key, words }: Visit): Fragment {
  if (key === null) return null;
  const [noun = '', name = ''] = key.split('.');
  const messages = ownMember(ownMember(words, noun), 'flash');
  const text = ownMember(messages, name);
  return typeof text !== 'string' ? null : html`<div role="status">${notice('good', text)}</div>`;
}

/** A member of a table of words; the key comes from a cookie, so what objects inherit is not looked at. */
function ownMember(table: unknown, key: string): unknown {
  if (typeof table !== 'object' || table === null || !Object.hasOwn(table, key)) return undefined;
  return (table as Readonly<Record<string, unknown>>)[key];
}
