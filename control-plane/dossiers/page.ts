import { hash } from 'node:crypto';
import { readCheckpoint } from '../../core/checkpoint.ts';
import type { Dossier, DossierEntry } from '../../core/dossier.ts';
import { escaped } from '../../core/html-text.ts';
import { readNote } from '../../core/signed-note.ts';
import { DOSSIER_STYLE } from './page-style.ts';

/** What the page may load: its own style and nothing else, no script at all (CSP level 3). */
export const DOSSIER_PAGE_POLICY =
  `default-src 'none'; style-src 'sha256-${hash('sha256', DOSSIER_STYLE, 'base64')}'; ` +
  "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/** A dossier as a page to read and to print: HTML without scripts, and everything from outside escaped. */
export function dossierPage(dossier: Dossier): string {
  const { receipt, action, presentation, decision, mandate, escalations, consumption, execution } = dossier;
  const title = `Dossier of ${receipt.receipt_id}`;
  const asked = escalations.map(({ escalation_id: id, opened, answered }) => {
    const parts = [opened, answered].filter((one) => one !== null).map(entryHtml);
    return `<h3>Escalation ${paperText(id)}</h3>${parts.join('') || paragraph('It was asked for by this decision.')}`;
  });
  const presented = presentation === null ? paragraph('None was needed, or it was malformed.') : source(presentation);
  const stood = [mandate?.terms, mandate?.status].filter((one) => one !== null && one !== undefined);
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>${paperText(title)}</title><style>${DOSSIER_STYLE}</style></head><body><main>
<h1>${paperText(title)}</h1>
<p class="note">This page is for reading and for the printer: it proves nothing by itself. What can be checked, offline
and by anybody, is the same dossier as JSON: <code>mandate dossier check</code>, or the checker page.</p>
${definitions([
  ['Decision', receipt.decision],
  ['Decided at', receipt.decided_at],
  ['Account', receipt.account],
  ['Service', dossier.issuer],
  ['Context digest', receipt.ctx ?? 'none: no action could be read'],
  ['Entry', `${receipt.evidence.seq}, ${receipt.evidence.hash}`],
])}
${section('Action', action === null ? paragraph('None could be read.') : source(action))}
${section('Presentation', presented)}
${section('Decision record', entryHtml(decision))}
${section('Mandate as it stood', stood.map(entryHtml).join('') || paragraph('There was no such mandate.'))}
${section('Escalation', asked.join('') || paragraph('None.'))}
${section('Consumption', consumption.map(entryHtml).join('') || paragraph('Nothing so far.'))}
${section('Execution', execution.map(entryHtml).join('') || paragraph('Nothing so far.'))}
${section('Tree head', treeHeadHtml(dossier))}
</main></body></html>
`;
}

function treeHeadHtml({ tree_head: { checkpoint, timestamps } }: Dossier): string {
  const note = checkpoint === null ? null : readNote(checkpoint);
  const head = note === null ? null : readCheckpoint(note.text);
  if (note === null || head === null) return paragraph('It is in the JSON.');
  const names = note.signatures.map(({ name }) => name).join(', ');
  return definitions([
    ['Log', head.origin],
    ['Entries', String(head.size)],
    ['Root', head.root],
    ['Signed by', names],
    ['Timestamps', String(timestamps.length)],
  ]);
}

function entryHtml({ entry, hash: leaf, inclusion }: DossierEntry): string {
  const { seq, id, kind, at, prev, body } = entry;
  return `<div class="entry"><h3>Entry ${seq}: ${paperText(kind)}</h3>${definitions([
    ['Identifier', id],
    ['Recorded at', at],
    ['Hash', leaf],
    ['Hash before', prev],
    ['Proof', `${inclusion.length} hashes to the root`],
  ])}${source(body)}</div>`;
}

function section(title: string, html: string): string {
  return `<section><h2>${paperText(title)}</h2>${html}</section>`;
}

function paragraph(text: string): string {
  return `<p>${paperText(text)}</p>`;
}

function definitions(pairs: readonly (readonly [name: string, value: string])[]): string {
  return `<dl>${pairs.map(([name, value]) => `<dt>${paperText(name)}</dt><dd>${paperText(value)}</dd>`).join('')}</dl>`;
}

function source(value: object): string {
  return `<pre tabindex="0">${paperText(JSON.stringify(value, null, 2))}</pre>`;
}

// What moves or hides text (bidi, zero-width, controls) is written out, so that paper shows what was recorded.
function paperText(text: string): string {
  const visible = text.replaceAll(/(?!\n)[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Zl}\p{Zp}]/gu, (character) => {
    return `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`;
  });
  return escaped(visible);
}
