import { attributes, type Html, html } from '../html.ts';

/** One page of several that belong together. */
export interface Tab {
  readonly label: string;
  readonly path: string;
  readonly current: boolean;
}

/** Links to the pages that belong together, with the one that is shown marked. */
export function tabs(label: string, items: readonly Tab[]): Html {
  const links = items.map(({ label: name, path, current }) => {
    return html`<li><a ${attributes({ href: path, 'aria-current': current ? 'page' : null })}>${name}</a></li>`;
  });
  return html`<nav class="tabs" aria-label="${label}"><ul>${links}</ul></nav>`;
}
