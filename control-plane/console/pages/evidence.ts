import { DENIAL_CODES } from '../../../core/denial-codes.ts';
import type { Sql } from '../../db/client.ts';
import { searchDecisions, timeAt } from '../../evidence/search.ts';
import { attributes, type Fragment, type Html, html } from '../html.ts';
import { readNames } from '../names.ts';
import { decisionTable, shownDecision } from '../parts/decision-parts.ts';
import { EVIDENCE_PATH, evidenceTabs } from '../parts/evidence-parts.ts';
import { type FormState, selectField, textField } from '../parts/form-parts.ts';
import { buttonLink, card, column, emptyState, heading, notice, pager } from '../parts/page-parts.ts';
import { moment } from '../parts/time.ts';
import { type EvidenceSearch, readEvidenceSearch } from '../search-form.ts';
import { type Answer, get, page, type SignedInVisit } from '../visit.ts';

/** Decisions of one page: what fits in 100 kB with room to spare, however long the texts of agents are. */
const DECISIONS_SHOWN = 30;
/** Mandates that the form offers by name; any other can be asked for by the links of its own page. */
const MANDATES_OFFERED = 50;

/** Searching the evidence for decisions. */
export const evidencePages = [get('/evidence', search)];

async function search(visit: SignedInVisit): Promise<Answer> {
  const { words, deps, session } = visit;
  const text = words.evidence;
  const asked = readEvidenceSearch(visit);
  const mandates = await offeredMandates(deps.sql, session.accountId, asked.state.values['mandate']);
  const top = [heading(text.title, text.lead), evidenceTabs(words, 'decisions'), searchForm(visit, asked, mandates)];
  if (!asked.ok) {
    const lost = asked.state.errors['before'];
    const body = column(...top, lost === undefined ? null : notice('warn', lost));
    return page('evidence', text.title, body, { status: 422 });
  }
  const { filter, before } = asked;
  const { decisions, nextBefore } = await searchDecisions(deps.sql, session.accountId, filter, {
    before,
    limit: DECISIONS_SHOWN,
  });
  const shown = decisions.map(shownDecision);
  const names = await readNames(
    deps.sql,
    session.accountId,
    shown.map(({ mandateId }) => mandateId),
  );
  const on = nextBefore === null ? null : pathOf(asked.state, String(nextBefore));
  const stopped = on === null || shown.length === DECISIONS_SHOWN ? null : { on, before: nextBefore };
  const list: Fragment[] = [
    shown.length > 0 ? decisionTable(visit, shown, names) : stopped === null ? nothing(visit, asked) : null,
    stopped === null ? null : await goOn(visit, shown.length, stopped),
  ];
  const newest = before === null ? null : { label: text.newest, path: pathOf(asked.state, null) };
  const older = on === null || stopped !== null ? null : { label: text.older, path: on };
  const found = html`<div class="stack" data-found>${list}${pager(newest, older)}</div>`;
  return page('evidence', text.title, column(...top, found));
}

/** What is said where the search was through with a part of the evidence before it had found a page full. */
async function goOn(
  { words, language, deps, session }: SignedInVisit,
  count: number,
  { on, before }: { readonly on: string; readonly before: number | null },
): Promise<Html> {
  const text = words.evidence;
  const at = before === null ? null : await timeAt(deps.sql, session.accountId, before);
  const back = at === null ? null : html`<p>${text.searchedBack} ${moment(language, at)}.</p>`;
  // Scripts go on by themselves as long as nothing was found.
  const given = attributes({ href: on, 'data-search-on': count === 0 ? '' : null });
  const link = html`<div class="actions"><a class="button primary" ${given}>${text.searchOn}</a></div>`;
  return notice('info', count === 0 ? text.noneYet : text.noMoreYet, html`<div class="stack">${back}${link}</div>`);
}

function nothing({ words }: SignedInVisit, { narrowed, before }: EvidenceSearch): Html {
  const text = words.evidence;
  if (narrowed || before !== null) return emptyState(text.noneTitle, text.noneText);
  return emptyState(text.emptyTitle, text.emptyText, buttonLink(text.emptyAction, '/console/gateways', true));
}

/** The address of a page of the same search. */
function pathOf({ values }: FormState, before: string | null): string {
  const { before: _, ...kept } = values;
  const query = new URLSearchParams({ ...kept, ...(before === null ? {} : { before }) }).toString();
  return query === '' ? EVIDENCE_PATH : `${EVIDENCE_PATH}?${query}`;
}

type Choice = readonly [value: string, label: string];

async function offeredMandates(sql: Sql, accountId: string, asked: string | undefined): Promise<Choice[]> {
  const rows = await sql<{ mandate_id: string; name: string }[]>`
    select mandate_id, name from mandates where account_id = ${accountId}
    order by mandate_id desc limit ${MANDATES_OFFERED}`;
  const offered = rows.map(({ mandate_id, name }): Choice => [mandate_id, name]);
  if (asked === undefined || offered.some(([id]) => id === asked)) return offered;
  return [[asked, asked], ...offered];
}

function searchForm({ words }: SignedInVisit, { state, narrowed }: EvidenceSearch, mandates: readonly Choice[]): Html {
  const text = words.evidence;
  const codes = DENIAL_CODES.map(([code]): Choice => [code, `${code} ${words.denials[code]}`]);
  const decisions = (['allow', 'deny', 'escalate'] as const).map((one): Choice => [one, text.decisions[one]]);
  const often = [
    selectField(state, 'decision', { label: text.decision }, [['', text.anyDecision], ...decisions]),
    selectField(state, 'mandate', { label: text.mandate }, [['', text.anyMandate], ...mandates]),
    textField(state, 'from', { label: text.from, type: 'datetime-local' }),
    textField(state, 'to', { label: text.to, type: 'datetime-local' }),
  ];
  const rare = [
    textField(state, 'receipt', { label: text.receipt, code: true, maxlength: 30, placeholder: 'rcp_…' }),
    selectField(state, 'code', { label: text.code }, [['', text.anyCode], ...codes]),
    textField(state, 'subject', { label: text.subject, code: true, maxlength: 30, placeholder: 'gwi_…, key_…' }),
    textField(state, 'agent', { label: text.agent, code: true, maxlength: 80, placeholder: 'did:key:…' }),
    textField(state, 'min_amount', { label: text.minAmount, inputmode: 'decimal', maxlength: 40 }),
    textField(state, 'max_amount', { label: text.maxAmount, inputmode: 'decimal', maxlength: 40 }),
    textField(state, 'currency', { label: text.currency, maxlength: 3, placeholder: 'EUR' }),
  ];
  const inUse = ['receipt', 'code', 'subject', 'agent', 'min_amount', 'max_amount', 'currency'];
  const open = inUse.some((name) => state.values[name] !== undefined);
  const more = html`<summary>${text.narrow}</summary><div class="fields">${rare}</div>`;
  const clear: Fragment = narrowed ? buttonLink(text.clear, EVIDENCE_PATH) : null;
  return card(
    text.search,
    html`<form class="search" method="get" action="${EVIDENCE_PATH}" role="search" novalidate>
<div class="fields">${often}</div>${open ? html`<details open>${more}</details>` : html`<details>${more}</details>`}
<div class="actions"><button type="submit" class="button primary">${text.search}</button>${clear}</div></form>`,
  );
}
