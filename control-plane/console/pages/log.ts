import { verifierKeyText } from '../../../core/signed-note.ts';
import type { Sql } from '../../db/client.ts';
import { EvidenceContradiction } from '../../evidence/tree.ts';
import {
  currentSize,
  lastSignedTreeHead,
  logKeyOf,
  type SignedTreeHead,
  signedTreeHead,
} from '../../evidence/tree-heads.ts';
import { type Fragment, type Html, html } from '../html.ts';
import { commandLine, EVIDENCE_PATH, evidenceTabs } from '../parts/evidence-parts.ts';
import { wholeText } from '../parts/number.ts';
import { badge, buttonLink, card, column, facts, heading, notice, secretLine, table } from '../parts/page-parts.ts';
import { moment } from '../parts/time.ts';
import { type Answer, get, page, type SignedInVisit } from '../visit.ts';

const CHECKPOINT_PATH = `${EVIDENCE_PATH}/log/checkpoint`;
/** The newest cosignatures that are looked at for the last one of each witness: more than there are witnesses. */
const COSIGNATURES_LOOKED_AT = 32;

/** How the log is, and what others have seen of it. */
export const logPages = [get('/evidence/log', health), get('/evidence/log/checkpoint', checkpoint)];

async function health(visit: SignedInVisit): Promise<Answer> {
  const { words, deps, session } = visit;
  const text = words.evidence.log;
  const [{ head, good }, size, stamp, cosignatures] = await Promise.all([
    headOf(visit),
    currentSize(deps.sql, session.accountId),
    lastTimestamp(deps.sql, session.accountId),
    lastCosignatures(deps.sql, session.accountId),
  ]);
  const state = good
    ? notice('good', text.goodTitle, html`<p>${text.goodText}</p>`)
    : notice('bad', text.badTitle, html`<p>${text.badText}</p>`);
  const key = verifierKeyText(logKeyOf(deps, session.accountId));
  const body = column(
    heading(words.evidence.title, text.lead),
    evidenceTabs(words, 'log'),
    state,
    html`<div class="halves">${headCard(visit, head, size)}<div class="column">${stampCard(visit, stamp)}${card(
      text.key,
      secretLine('verifier-key', key, words.shell),
      text.keyText,
    )}</div></div>`,
    witnessCard(visit, cosignatures),
    checkCard(visit),
  );
  return page('evidence', text.title, body);
}

/** The tree head of now; where nothing can be signed any more, the last one that was. */
async function headOf({ deps, session }: SignedInVisit): Promise<{ head: SignedTreeHead | null; good: boolean }> {
  try {
    return { head: await signedTreeHead(deps, session.accountId), good: true };
  } catch (error) {
    if (!(error instanceof EvidenceContradiction)) throw error;
    deps.logError(error, 'no tree head is signed: the evidence contradicts the last one');
    return { head: await lastSignedTreeHead(deps.sql, session.accountId), good: false };
  }
}

function headCard({ words, language }: SignedInVisit, head: SignedTreeHead | null, size: number): Html {
  const text = words.evidence.log;
  const rows: (readonly [string, Fragment])[] = [[text.size, wholeText(language, size)]];
  if (head !== null) {
    rows.push([text.covers, text.coversText(wholeText(language, head.size))]);
    rows.push([text.signed, moment(language, Date.parse(head.at))]);
    rows.push([text.root, html`<code>${head.root}</code>`]);
  }
  return card(
    text.head,
    html`${facts(rows)}<p class="muted">${text.keep}</p>
<div class="actions">${buttonLink(text.checkpoint, CHECKPOINT_PATH, true)}</div>`,
  );
}

interface Stamp {
  readonly size: number;
  readonly gen_time: number;
  readonly tsa: string;
  readonly trusted: boolean;
}

async function lastTimestamp(sql: Sql, accountId: string): Promise<Stamp | null> {
  const [row] = await sql<Stamp[]>`
    select size, gen_time, tsa, trusted from timestamps where account_id = ${accountId} order by size desc limit 1`;
  return row ?? null;
}

function stampCard({ words, language }: SignedInVisit, stamp: Stamp | null): Html {
  const text = words.evidence.log;
  if (stamp === null) return card(text.timestamp, html`<p class="muted">${text.timestampNone}</p>`);
  const { size, gen_time, tsa, trusted } = stamp;
  return card(
    text.timestamp,
    facts([
      [text.signed, moment(language, gen_time)],
      [text.covers, text.coversText(wholeText(language, size))],
      [text.authority, html`${tsa} ${badge(trusted ? 'good' : 'warn', trusted ? text.trusted : text.untrusted)}`],
    ]),
  );
}

interface Cosigned {
  readonly witness: string;
  readonly size: number;
  readonly cosigned_at: number;
}

async function lastCosignatures(sql: Sql, accountId: string): Promise<Cosigned[]> {
  const rows = await sql<Cosigned[]>`
    select witness, size, cosigned_at from cosignatures where account_id = ${accountId}
    order by size desc limit ${COSIGNATURES_LOOKED_AT}`;
  const last = new Map<string, Cosigned>();
  for (const row of rows) if (!last.has(row.witness)) last.set(row.witness, row);
  return [...last.values()];
}

function witnessCard({ words, language }: SignedInVisit, cosignatures: readonly Cosigned[]): Html {
  const text = words.evidence.log;
  if (cosignatures.length === 0) return card(text.witnesses, html`<p class="muted">${text.witnessesNone}</p>`);
  const rows = cosignatures.map(({ witness, size, cosigned_at }) => [
    witness,
    moment(language, cosigned_at),
    text.coversText(wholeText(language, size)),
  ]);
  const columns = [{ label: text.witness, kind: 'main' }, { label: text.cosigned }, { label: text.covers }] as const;
  return card(text.witnesses, table(text.witnesses, columns, rows));
}

function checkCard({ words }: SignedInVisit): Html {
  const text = words.evidence.log;
  const commands = [
    ['whole', text.checkWhole, 'mandate evidence verify'],
    ['exported', text.checkExport, 'mandate evidence verify FILE --jwks jwks.json'],
    ['dossier', text.checkDossier, 'mandate dossier check FILE'],
    ['page', text.checkPage, 'mandate dossier page --out check.html'],
  ] as const;
  const items = commands.map(
    ([id, label, command]) => html`<li class="stack"><p>${label}</p>${commandLine(id, command, words.shell)}</li>`,
  );
  return card(text.check, html`<ul class="plain-list">${items}</ul>`);
}

/** The newest checkpoint as a file, with what witnesses have added to it. */
async function checkpoint(visit: SignedInVisit): Promise<Answer> {
  const { deps, session, reply } = visit;
  const { head } = await headOf(visit);
  if (head === null) throw new EvidenceContradiction(`nothing was ever signed of ${session.accountId}`);
  const lines = await deps.sql<{ line: string }[]>`
    select line from cosignatures where account_id = ${session.accountId} and size = ${head.size} order by witness`;
  reply
    .header('content-disposition', `attachment; filename="checkpoint-${session.accountId}-${head.size}.txt"`)
    .type('text/plain; charset=utf-8')
    .send(head.checkpoint + lines.map(({ line }) => line).join(''));
  return { kind: 'sent' };
}
