import { type Html, html } from '../html.ts';
import type { Words } from '../words.ts';
import { tabs } from './tabs.ts';

export const EVIDENCE_PATH = '/console/evidence';

const PATHS = {
  decisions: EVIDENCE_PATH,
  entries: `${EVIDENCE_PATH}/entries`,
  export: `${EVIDENCE_PATH}/export`,
  log: `${EVIDENCE_PATH}/log`,
} as const;
export type EvidenceTab = keyof typeof PATHS;

/** The pages of the evidence, beside each other. */
export function evidenceTabs({ evidence }: Words, current: EvidenceTab): Html {
  const names = Object.keys(PATHS) as EvidenceTab[];
  return tabs(
    evidence.tabsLabel,
    names.map((name) => ({ label: evidence.tabs[name], path: PATHS[name], current: name === current })),
  );
}

/** Text of an entry as it is, out of the way until somebody wants it; `note` says what is missing of it. */
export function rawDetails(summary: string, text: string, note: string | null = null): Html {
  return html`<details class="raw"><summary>${summary}</summary>
${note === null ? null : html`<p class="muted small">${note}</p>`}<pre tabindex="0">${text}</pre></details>`;
}

/** A command that can be copied; `id` is unique on its page. */
export function commandLine(
  id: string,
  command: string,
  words: { readonly copy: string; readonly copied: string },
): Html {
  return html`<div class="secret"><code id="${id}">${command}</code>
<button type="button" class="button small" data-needs-script data-copy="${id}" data-copied="${words.copied}">${
    words.copy
  }</button></div>`;
}
