import { invalidFields } from '../../../core/body-value.ts';
import { ProblemError } from '../../../core/errors.ts';
import { EVIDENCE_KINDS, type StoredEntry } from '../../../core/evidence.ts';
import { isTypeId } from '../../../core/type-id.ts';
import type { Sql } from '../../db/client.ts';
import { type Html, html } from '../html.ts';
import { readNames } from '../names.ts';
import { actorWords, entryFacts, idsOf, kindWords } from '../parts/entry-parts.ts';
import { EVIDENCE_PATH, evidenceTabs, rawDetails } from '../parts/evidence-parts.ts';
import { selectField } from '../parts/form-parts.ts';
import { card, column, crumbs, emptyState, facts, heading, pager, table } from '../parts/page-parts.ts';
import { moment } from '../parts/time.ts';
import { type Answer, get, page, type SignedInVisit } from '../visit.ts';
import type { Words } from '../words.ts';

const ENTRIES_PATH = `${EVIDENCE_PATH}/entries`;
/** Entries of one page. */
const ENTRIES_SHOWN = 30;
/** Characters of an entry's body within the list; its own page has all of it. */
const BODY_SHOWN_CHARACTERS = 800;

/** Whatever was done besides deciding: who did what, and when. */
export const entryPages = [get('/evidence/entries', list), get('/evidence/entries/:id', one)];

/** An entry of a list; its body is JCS text. */
type Entry = Pick<StoredEntry, 'seq' | 'id' | 'kind' | 'at' | 'body'>;

const KINDS = EVIDENCE_KINDS.filter((kind) => kind !== 'decision' && kind !== 'outcome');
type Area = keyof Words['entries']['areas'];

async function list(visit: SignedInVisit): Promise<Answer> {
  const { words, deps, session } = visit;
  const text = words.entries;
  const { kind, before } = readAsked(visit);
  const kinds = KINDS.filter((one) => kind === '' || one.split('.')[0] === kind);
  const found = await readEntries(deps.sql, session.accountId, kinds, { before, limit: ENTRIES_SHOWN + 1 });
  const shown = found.slice(0, ENTRIES_SHOWN);
  const next = found.length > ENTRIES_SHOWN ? (shown.at(-1)?.seq ?? null) : null;
  const path = (at: number | null) => {
    const query = new URLSearchParams({
      ...(kind === '' ? {} : { kind }),
      ...(at === null ? {} : { before: String(at) }),
    }).toString();
    return query === '' ? ENTRIES_PATH : `${ENTRIES_PATH}?${query}`;
  };
  const body = column(
    heading(words.evidence.title, text.lead),
    evidenceTabs(words, 'entries'),
    choice(words, kind),
    shown.length === 0 ? emptyState(text.emptyTitle, text.emptyText) : await entriesTable(visit, shown),
    pager(
      before === null ? null : { label: text.newest, path: path(null) },
      next === null ? null : { label: text.older, path: path(next) },
    ),
  );
  return page('evidence', text.title, body);
}

function readAsked({ request, words }: SignedInVisit): { readonly kind: Area | ''; readonly before: number | null } {
  const { kind = '', before = '', ...rest } = request.query as Readonly<Record<string, unknown>>;
  const [unknown] = Object.keys(rest);
  if (unknown !== undefined) throw invalidFields([{ field: unknown, message: 'is not known here' }]);
  const known = typeof kind === 'string' && (kind === '' || Object.hasOwn(words.entries.areas, kind));
  if (!known) throw invalidFields([{ field: 'kind', message: 'must be one of the list' }]);
  const at = before === '' ? null : /^(0|[1-9]\d{0,15})$/.test(String(before)) ? Number(before) : Number.NaN;
  if (Number.isNaN(at)) throw invalidFields([{ field: 'before', message: 'must be the number of an entry' }]);
  return { kind: kind as Area | '', before: at };
}

function choice(words: Words, kind: string): Html {
  const text = words.entries;
  const options = [['', text.all] as const, ...Object.entries(text.areas)];
  return html`<form class="search" method="get" action="${ENTRIES_PATH}"><div class="fields">
${selectField({ values: { kind }, errors: {} }, 'kind', { label: text.kind }, options)}
<div class="actions"><button type="submit" class="button">${text.choose}</button></div></div></form>`;
}

async function entriesTable(visit: SignedInVisit, entries: readonly Entry[]): Promise<Html> {
  const { words, language, deps, session } = visit;
  const text = words.entries;
  const read = entries.map((entry) => ({
    ...entry,
    value: JSON.parse(entry.body) as Readonly<Record<string, unknown>>,
  }));
  const names = await readNames(
    deps.sql,
    session.accountId,
    read.flatMap(({ value }) => idsOf(value)),
  );
  const rows = read.map(({ id, kind, at, body, value }) => {
    const cut = body.length > BODY_SHOWN_CHARACTERS;
    const said = entryFacts(visit, value, names);
    const note = cut ? text.cut(BODY_SHOWN_CHARACTERS) : null;
    return [
      html`<a href="${`${ENTRIES_PATH}/${id}`}">${kindWords(words, kind)}</a><div class="small">${said}${rawDetails(
        text.details,
        body.slice(0, BODY_SHOWN_CHARACTERS),
        note,
      )}</div>`,
      html`<span class="small">${actorWords(words, kind, value)}</span>`,
      html`<span class="small nowrap">${moment(language, Date.parse(at))}</span>`,
    ];
  });
  const columns = [{ label: text.what, kind: 'main' }, { label: text.who }, { label: text.when }] as const;
  return table(text.title, columns, rows);
}

async function one(visit: SignedInVisit): Promise<Answer> {
  const { words, language, deps, session, request } = visit;
  const text = words.entries;
  const { id } = request.params as { readonly id?: unknown };
  const entry = await readEntry(deps.sql, session.accountId, id);
  if (entry === null) throw new ProblemError('not_found', 'There is nothing with this identifier.');
  const value = JSON.parse(entry.body) as Readonly<Record<string, unknown>>;
  const names = await readNames(deps.sql, session.accountId, idsOf(value));
  const title = kindWords(words, entry.kind);
  const body = column(
    crumbs(text.title, ENTRIES_PATH),
    heading(title, entryFacts(visit, value, names)),
    html`<section class="card">${facts([
      [text.recorded, moment(language, Date.parse(entry.at))],
      [text.who, actorWords(words, entry.kind, value)],
      [text.seq, String(entry.seq)],
      [text.id, html`<code>${entry.id}</code>`],
      [text.hash, html`<code>${entry.hash}</code>`],
      [text.prev, html`<code>${entry.prev}</code>`],
    ])}</section>`,
    card(text.details, html`<pre tabindex="0" class="wording">${JSON.stringify(value, null, 2)}</pre>`),
  );
  return page('evidence', title, body);
}

/** Each kind's newest by its index, so that a million decisions between them cost nothing. */
async function readEntries(
  sql: Sql,
  accountId: string,
  kinds: readonly string[],
  { before, limit }: { readonly before: number | null; readonly limit: number },
): Promise<Entry[]> {
  const rows = await sql<Entry[]>`
    select n.* from unnest(${[...kinds]}::text[]) as k (kind)
    cross join lateral (
      select e.seq, e.id, e.kind, e.at, e.body from evidence e
      where e.account_id = ${accountId} and e.kind = k.kind and e.kind not in ('decision', 'outcome')
        and e.seq < ${before ?? Number.MAX_SAFE_INTEGER}
      order by e.seq desc limit ${limit}
    ) n
    order by n.seq desc limit ${limit}`;
  return [...rows];
}

async function readEntry(sql: Sql, accountId: string, id: unknown): Promise<StoredEntry | null> {
  if (!(isTypeId(id, 'evt') || isTypeId(id, 'con') || isTypeId(id, 'exe'))) return null;
  const [row] = await sql<StoredEntry[]>`
    select account_id as account, seq, id, kind, at, encode(prev, 'hex') as prev, body, encode(hash, 'hex') as hash
    from evidence where account_id = ${accountId} and id = ${id} and kind <> 'outcome' and kind <> 'decision'`;
  return row ?? null;
}
