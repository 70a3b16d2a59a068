/** The style of the page; its hash is in the page's policy, so it stands here alone. */
export const DOSSIER_STYLE = `
:root { color-scheme: light dark; --line: light-dark(#d5d9de, #3a4048); --soft: light-dark(#f5f6f8, #1d2126);
  --text: light-dark(#1a1d21, #e6e8eb); --page: light-dark(#fff, #14171a); --accent: light-dark(#0b57a4, #8fc2ff); }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem 1rem 4rem; max-width: 56rem; font: 1rem/1.5 system-ui, sans-serif;
  color: var(--text); background: var(--page); overflow-wrap: anywhere; }
h1, h2, h3 { line-height: 1.2; }
h2 { margin: 2.5rem 0 .75rem; border-bottom: 2px solid var(--line); padding-bottom: .25rem; }
h3 { margin: 1.5rem 0 .5rem; font-size: 1rem; }
.note { background: var(--soft); border-left: 4px solid var(--accent); padding: .75rem 1rem; }
dl { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: .35rem 1.25rem; margin: 0; }
dt { opacity: .8; }
dd { margin: 0; }
code, pre { font: .875rem/1.5 ui-monospace, monospace; }
pre { background: var(--soft); border: 1px solid var(--line); border-radius: .25rem; padding: .75rem; margin: .5rem 0 0;
  white-space: pre-wrap; }
.entry { border: 1px solid var(--line); border-radius: .5rem; padding: 0 1rem 1rem; margin: 1rem 0; }
@media (max-width: 40rem) { dl { grid-template-columns: minmax(0, 1fr); gap: 0; } dd { margin-bottom: .5rem; } }
@media print { :root { color-scheme: light; } body { max-width: none; padding: 0; font-size: 10pt; }
  h2, h3 { break-after: avoid; } }
`;
