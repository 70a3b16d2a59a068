import { termsOf } from '../../../core/dossier-terms.ts';
import { ProblemError } from '../../../core/errors.ts';
import type { StoredEntry } from '../../../core/evidence.ts';
import type { MandateTerms } from '../../../core/mandate.ts';
import { mandateWords } from '../../../core/mandate-words.ts';
import { type RecordedDecision, recordedDecision } from '../../../core/recorded-decision.ts';
import {
  type DecisionPlace,
  decisionOf,
  escalationEntries,
  eventsOf,
  mandateBefore,
  outcomesOf,
} from '../../dossiers/entries.ts';
import { makeDossier } from '../../dossiers/make.ts';
import { DOSSIER_PAGE_POLICY, dossierPage } from '../../dossiers/page.ts';
import { html } from '../html.ts';
import { readNames } from '../names.ts';
import { decisionBadge, shownDecision } from '../parts/decision-parts.ts';
import {
  askedCard,
  decidedCard,
  type EscalationShown,
  escalationCard,
  eventsCard,
  mandateCard,
  monthCard,
} from '../parts/decision-story.ts';
import { EVIDENCE_PATH, rawDetails } from '../parts/evidence-parts.ts';
import { buttonLink, card, column, crumbs, facts, heading, notice, secretLine } from '../parts/page-parts.ts';
import { moment } from '../parts/time.ts';
import { idOf } from '../path-id.ts';
import { type Answer, get, page, type SignedInVisit } from '../visit.ts';

/** Characters of an entry on its page; the dossier has all of it. */
const RAW_SHOWN_CHARACTERS = 32_000;

/** One decision: its page, its dossier as a file, and the dossier to read and print. */
export const decisionPages = [
  get('/evidence/:id', one),
  get('/evidence/:id/dossier', downloadDossier),
  get('/evidence/:id/print', printDossier),
];

async function one(visit: SignedInVisit): Promise<Answer> {
  const { words, language, deps, session } = visit;
  const text = words.evidence;
  const receiptId = idOf(visit, 'rcp');
  const entry = await decisionOf(deps.sql, session.accountId, receiptId);
  if (entry === null) throw new ProblemError('not_found', 'There is no such receipt.');
  const shown = shownDecision(entry);
  const parsed = recordedDecision.safeParse(JSON.parse(entry.body));
  const story = parsed.success ? await storyOf(visit, entry, parsed.data) : notice('info', text.unreadable);
  const base = `${EVIDENCE_PATH}/${receiptId}`;
  const links = html`${buttonLink(text.dossier, `${base}/dossier`, true)}${buttonLink(text.print, `${base}/print`)}`;
  const title = shown.action?.type || shown.tool || text.noAction;
  const body = column(
    crumbs(text.title, EVIDENCE_PATH),
    heading(title, html`${decisionBadge(words, shown.decision)} ${moment(language, shown.atMs)}`, links),
    card(text.receipt, secretLine('receipt', receiptId, words.shell), text.dossierText),
    story,
    card(
      text.entry,
      html`${facts([
        [words.entries.seq, String(entry.seq)],
        [text.hash, html`<code>${entry.hash}</code>`],
      ])}${rawOf(visit, entry)}`,
    ),
  );
  return page('evidence', title, body);
}

function rawOf({ words }: SignedInVisit, entry: StoredEntry) {
  const { body, ...rest } = entry;
  const text = JSON.stringify({ ...rest, body: JSON.parse(body) as object }, null, 2);
  const cut = text.length > RAW_SHOWN_CHARACTERS ? words.entries.cut(RAW_SHOWN_CHARACTERS) : null;
  return rawDetails(words.evidence.raw, text.slice(0, RAW_SHOWN_CHARACTERS), cut);
}

async function storyOf(visit: SignedInVisit, entry: StoredEntry, body: RecordedDecision) {
  const { deps, session } = visit;
  const place: DecisionPlace = {
    accountId: session.accountId,
    receiptId: entry.id,
    seq: entry.seq,
    atMs: Date.parse(entry.at),
  };
  const escalationIds = [body.escalation?.id, body.grant?.escalation_id, body.standing?.escalation_id];
  const forwarded = body.path === 'gateway' && body.decision === 'allow';
  const subject = body.path === 'gateway' ? body.instance : body.key;
  const [mandate, events, outcomes, names, escalations] = await Promise.all([
    body.mandate === undefined ? null : mandateBefore(deps.sql, place, body.mandate.id),
    eventsOf(deps.sql, place),
    forwarded ? outcomesOf(deps.sql, place) : [],
    readNames(deps.sql, session.accountId, [subject, body.mandate?.id ?? null]),
    Promise.all(
      [...new Set(escalationIds)].flatMap((id) => (id === undefined ? [] : [escalationOf(visit, entry, id)])),
    ),
  ]);
  const terms = termsFrom(mandate?.terms ?? null);
  const happened = [...events, ...outcomes].sort((a, b) => a.seq - b.seq);
  const wording = terms === null ? null : mandateWords(terms, visit.language);
  return [
    html`<div class="halves">${askedCard(visit, body, terms, names)}${decidedCard(visit, body)}</div>`,
    html`<div class="halves">${mandateCard(visit, body, { terms, wording }, names)}<div class="column">${monthCard(
      visit,
      body,
      terms,
    )}${escalationCard(visit, escalations)}</div></div>`,
    eventsCard(visit, { receiptId: entry.id, decision: body.decision }, happened, terms?.currency ?? null),
  ];
}

function termsFrom(entry: StoredEntry | null): MandateTerms | null {
  return entry === null ? null : termsOf(JSON.parse(entry.body));
}

async function escalationOf(visit: SignedInVisit, decision: StoredEntry, id: string): Promise<EscalationShown> {
  const { opened, answered } = await escalationEntries(visit.deps.sql, visit.session.accountId, id);
  return { id, own: opened?.seq === decision.seq, openedBy: opened?.id ?? null, answered };
}

async function dossierOf({ deps, session }: SignedInVisit, receiptId: string) {
  const dossier = await makeDossier(deps, { accountId: session.accountId, receiptId, mat: null });
  if (dossier === null) throw new ProblemError('not_found', 'There is no such receipt.');
  return dossier;
}

async function downloadDossier(visit: SignedInVisit): Promise<Answer> {
  const receiptId = idOf(visit, 'rcp');
  const dossier = await dossierOf(visit, receiptId);
  visit.reply
    .header('content-disposition', `attachment; filename="dossier-${receiptId}.json"`)
    .type('application/json; charset=utf-8')
    .send(JSON.stringify(dossier));
  return { kind: 'sent' };
}

async function printDossier(visit: SignedInVisit): Promise<Answer> {
  const dossier = await dossierOf(visit, idOf(visit, 'rcp'));
  visit.reply
    .header('content-security-policy', DOSSIER_PAGE_POLICY)
    .type('text/html; charset=utf-8')
    .send(dossierPage(dossier));
  return { kind: 'sent' };
}
