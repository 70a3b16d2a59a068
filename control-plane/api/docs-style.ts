/** The style of the page; its hash is in the page's policy, so it stands here alone. */
export const DOCS_STYLE = `
:root { color-scheme: light dark; --line: light-dark(#d5d9de, #3a4048); --soft: light-dark(#f5f6f8, #1d2126);
  --text: light-dark(#1a1d21, #e6e8eb); --link: light-dark(#0b57a4, #8fc2ff); --page: light-dark(#fff, #14171a); }
* { box-sizing: border-box; }
html { scroll-padding-top: 1rem; }
body { margin: 0 auto; padding: 1rem; max-width: 76rem; font: 1rem/1.5 system-ui, sans-serif; color: var(--text);
  background: var(--page); overflow-wrap: anywhere; }
a { color: var(--link); }
:focus-visible { outline: 3px solid var(--link); outline-offset: 2px; }
.skip { position: absolute; left: -100vw; }
.skip:focus { left: 1rem; top: 1rem; padding: .5rem; background: var(--page); }
h1, h2, h3, h4 { line-height: 1.2; }
h2 { margin-top: 2.5rem; }
article { border: 1px solid var(--line); border-radius: .5rem; padding: 0 1rem 1rem; margin: 1rem 0; }
nav ul { list-style: none; padding: 0; margin: 0; }
nav a { display: block; padding: .4rem 0; text-decoration: none; }
nav a:hover span { text-decoration: underline; }
code, pre { font: .875rem/1.5 ui-monospace, monospace; }
pre { background: var(--soft); border: 1px solid var(--line); border-radius: .25rem; padding: .75rem; margin: 0;
  overflow-x: auto; overflow-wrap: normal; max-height: 24rem; }
figure { margin: .5rem 0 1rem; }
figcaption, small, .headers { font-size: .875rem; opacity: .85; }
.method { display: inline-block; min-width: 3.5rem; font: bold .875rem/1.5 ui-monospace, monospace; }
details { border-top: 1px solid var(--line); }
summary { padding: .6rem 0; cursor: pointer; }
dt { margin-top: .5rem; }
dd { margin: 0 0 0 1rem; }
dl dl { border-left: 2px solid var(--line); padding-left: .75rem; }
@media (min-width: 60rem) {
  body { display: grid; grid-template-columns: 20rem minmax(0, 1fr); gap: 0 2rem; }
  header { grid-column: 1 / -1; }
  nav { position: sticky; top: 0; align-self: start; max-height: 100vh; overflow-y: auto; padding-bottom: 1rem; }
}
@media (prefers-reduced-motion: no-preference) { html { scroll-behavior: smooth; } }
`;
