import './no-code-from-text.ts';
import { checkDossier, type DossierReport, type DossierSummary } from '../../core/dossier-check.ts';
import { bothTrusted, NO_TRUST, readPinned, type Trust } from '../../core/dossier-trust.ts';
import { DOSSIER_MAX_BYTES } from '../../core/limits.ts';
import { CLAIM_TITLES, RESULT_WORDS, VERDICT_TEXTS } from '../dossier-words.ts';
import type { PageDocument, PageElement, PageFile } from './page-dom.ts';

declare const document: PageDocument;

interface Opened {
  readonly name: string;
  readonly bytes: Uint8Array;
}

let dossier: Opened | null = null;
const pinned = new Map<string, Trust>();
let rounds = 0;

function element(id: string): PageElement {
  const found = document.getElementById(id);
  if (found === null) throw new Error(`the page has no ${id}`);
  return found;
}

function made(name: string, text: string, className = ''): PageElement {
  const one = document.createElement(name);
  one.textContent = text;
  one.className = className;
  return one;
}

function tell(id: string, text: string): void {
  element(id).textContent = text;
}

async function read(file: PageFile): Promise<Opened | null> {
  if (file.size > DOSSIER_MAX_BYTES) {
    tell('problem', `${file.name} is larger than ${DOSSIER_MAX_BYTES} bytes: it is no dossier and no file of keys.`);
    return null;
  }
  return { name: file.name, bytes: new Uint8Array(await file.arrayBuffer()) };
}

/** Whether a file looks like keys: what is neither is checked as a dossier, which then says what is wrong with it. */
function takeKeys({ name, bytes }: Opened): boolean {
  const reading = readPinned(bytes);
  if (reading.ok) pinned.set(name, reading.trust);
  return reading.ok;
}

async function take(files: Iterable<PageFile>, as: 'dossier' | 'keys' | 'either'): Promise<void> {
  tell('problem', '');
  for (const file of files) {
    const opened = await read(file);
    if (opened === null) continue;
    const keys = as !== 'dossier' && takeKeys(opened);
    if (!keys && as === 'keys') tell('problem', `${file.name} is neither a JWKS nor a trust file.`);
    if (!keys && as !== 'keys') dossier = opened;
  }
  await check();
}

async function check(): Promise<void> {
  rounds += 1;
  const round = rounds;
  tell('dossier-name', dossier === null ? 'No file yet' : dossier.name);
  tell('keys-name', pinned.size === 0 ? 'No file yet' : [...pinned.keys()].join(', '));
  if (dossier === null) return;
  const trust = [...pinned.values()].reduce(bothTrusted, NO_TRUST);
  const { name, bytes } = dossier;
  const report = await checkDossier(bytes, trust);
  // A file that was opened meanwhile is what is shown.
  if (round === rounds) show(report, name);
}

function show({ verdict, claims, summary }: DossierReport, file: string): void {
  const { title, text } = VERDICT_TEXTS[verdict];
  element('verdict').className = `verdict ${verdict}`;
  tell('verdict-title', title);
  tell('verdict-text', text);
  tell('said-title', verdict === 'accepted' ? 'What the file says' : 'What the file says, unproven');
  element('summary').replaceChildren(...(summary === null ? [] : summaryPairs(summary)));
  const rows = claims.map(({ name, result, sentence }) => {
    const row = made('li', '', result);
    row.append(
      made('b', RESULT_WORDS[result], 'result'),
      made('span', CLAIM_TITLES[name], 'name'),
      made('p', sentence),
    );
    return row;
  });
  element('claims').replaceChildren(...rows);
  element('report').setAttribute('data-file', file);
  element('report').hidden = false;
  document.title = `${title}: ${summary?.receipt_id ?? 'dossier'}`;
}

function summaryPairs(summary: DossierSummary): PageElement[] {
  const { decision, code, action, decided_at, mandate_id, account, issuer, receipt_id, sealed_at, tree_size } = summary;
  const pairs: readonly (readonly [string, string | null])[] = [
    ['Decision', code === null ? decision : `${decision}, ${code}`],
    ['Action', action],
    ['Decided at', decided_at],
    ['Receipt', receipt_id],
    ['Mandate', mandate_id],
    ['Account', account],
    ['Service', issuer],
    ['Made at', sealed_at],
    ['Log', tree_size === null ? null : `${tree_size} entries`],
  ];
  return pairs.flatMap(([name, value]) => (value === null ? [] : [made('dt', name), made('dd', value)]));
}

function begin(): void {
  element('dossier-file').addEventListener('change', ({ target }) => void take(target?.files ?? [], 'dossier'));
  element('keys-file').addEventListener('change', ({ target }) => void take(target?.files ?? [], 'keys'));
  for (const type of ['dragover', 'drop']) document.addEventListener(type, (event) => event.preventDefault());
  document.addEventListener('drop', ({ dataTransfer }) => void take([...(dataTransfer?.files ?? [])], 'either'));
  element('ready').hidden = false;
}

begin();
