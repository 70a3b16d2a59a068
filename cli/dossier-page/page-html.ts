import { hash } from 'node:crypto';

const STYLE = `
:root { color-scheme: light dark; --line: light-dark(#d0d5db, #3a4048); --soft: light-dark(#f5f6f8, #1d2126);
  --text: light-dark(#1a1d21, #e6e8eb); --page: light-dark(#fff, #14171a); --accent: light-dark(#0b57a4, #8fc2ff);
  --good: light-dark(#116329, #7ee2a0); --bad: light-dark(#a40e26, #ffa198); --open: light-dark(#7a4d00, #f2cc60); }
* { box-sizing: border-box; }
[hidden] { display: none !important; }
body { margin: 0 auto; padding: 1.5rem 1rem 4rem; max-width: 58rem; font: 1rem/1.5 system-ui, sans-serif;
  color: var(--text); background: var(--page); overflow-wrap: anywhere; }
h1, h2 { line-height: 1.2; margin: 0 0 .5rem; }
h1 { font-size: 1.6rem; }
h2 { font-size: 1.15rem; }
.files { display: grid; grid-template-columns: repeat(auto-fit, minmax(17rem, 1fr)); gap: 1rem; margin: 1.5rem 0; }
.file { border: 2px dashed var(--line); border-radius: .5rem; padding: 1rem; }
.file p { margin: 0 0 .75rem; }
input[type=file] { display: block; width: 100%; font: inherit; color: inherit; }
input[type=file]::file-selector-button { font: inherit; padding: .5rem .9rem; margin-right: .75rem; cursor: pointer;
  border: 1px solid var(--line); border-radius: .375rem; background: var(--soft); color: inherit; }
:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; }
.chosen { font-size: .875rem; opacity: .85; margin: .5rem 0 0 !important; }
#problem { color: var(--bad); font-weight: 600; min-height: 1.5em; margin: 0; }
.verdict { border: 2px solid currentColor; border-radius: .5rem; padding: 1rem 1.25rem; margin: 0 0 1.5rem; }
.verdict h2 { font-size: 1.5rem; }
.verdict p { margin: 0; color: var(--text); }
.accepted, .ok .result { color: var(--good); }
.rejected, .failed .result { color: var(--bad); }
.incomplete, .not_checked .result { color: var(--open); }
dl { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: .3rem 1.25rem; margin: 0 0 1.5rem; }
dt { opacity: .8; }
dd { margin: 0; }
ol { list-style: none; margin: 0; padding: 0; }
li { display: grid; grid-template-columns: 7rem minmax(0, 1fr); gap: 0 1rem; padding: .6rem 0;
  border-top: 1px solid var(--line); }
li .name { font-weight: 600; }
li p { grid-column: 2; margin: 0; }
li.failed { background: light-dark(#fff0f0, #35161a); box-shadow: -.5rem 0 light-dark(#fff0f0, #35161a),
  .5rem 0 light-dark(#fff0f0, #35161a); }
footer { margin-top: 2rem; font-size: .875rem; opacity: .85; }
@media (max-width: 34rem) { li { grid-template-columns: minmax(0, 1fr); } li p { grid-column: 1; }
  dl { grid-template-columns: minmax(0, 1fr); gap: 0; } dd { margin-bottom: .5rem; } }
@media print { :root { color-scheme: light; } body { max-width: none; padding: 0; font-size: 10pt; } .files { display: none; }
  li { break-inside: avoid; } }
`;

const BODY = `<header><h1>Check a dossier</h1>
<p>This page checks, on this machine and with no network, what a dossier claims. It trusts nothing in the file but what is
signed with keys that you bring from elsewhere.</p></header>
<noscript><p>This page needs JavaScript: all of it is in this file.</p></noscript>
<main id="ready" hidden>
<div class="files">
<div class="file"><h2><label for="dossier-file">Dossier</label></h2><p>The JSON file, as the service answered it.</p>
<input type="file" id="dossier-file" accept=".json,application/json"><p class="chosen" id="dossier-name">No file yet</p></div>
<div class="file"><h2><label for="keys-file">Keys you trust</label></h2><p>The service's JWKS, or a trust file.</p>
<input type="file" id="keys-file" accept=".json,application/json" multiple><p class="chosen" id="keys-name">No file yet</p></div>
</div>
<p id="problem" role="alert"></p>
<div id="report" hidden>
<section class="verdict" id="verdict" role="status"><h2 id="verdict-title"></h2><p id="verdict-text"></p></section>
<section aria-labelledby="said-title"><h2 id="said-title"></h2><dl id="summary"></dl></section>
<section aria-labelledby="claims-title"><h2 id="claims-title">What was checked</h2><ol id="claims"></ol></section>
</div>
</main>
<footer><p>Files can also be dropped anywhere on this page. They stay on this machine: the page's policy allows it no
connection at all.</p></footer>`;

/** The whole page around its script: one file that may load nothing (CSP level 3; Trusted Types). */
export function pageHtml(script: string): string {
  const source = (text: string): string => `'sha256-${hash('sha256', text, 'base64')}'`;
  const policy =
    `default-src 'none'; script-src ${source(script)}; style-src ${source(STYLE)}; base-uri 'none'; ` +
    "form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'";
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta http-equiv="content-security-policy" content="${policy}">
<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="referrer" content="no-referrer">
<title>Check a dossier</title><style>${STYLE}</style></head><body>
${BODY}
<script>${script}</script></body></html>
`;
}
