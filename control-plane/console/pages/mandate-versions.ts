import { mandateChanges } from '../../../core/mandate-changes.ts';
import { mandateWords } from '../../../core/mandate-words.ts';
import { readVersions } from '../../mandates/change.ts';
import { unknownMandate } from '../../mandates/routes.ts';
import { readMandate } from '../../mandates/view.ts';
import { html } from '../html.ts';
import { card, column, crumbs, heading, pager } from '../parts/page-parts.ts';
import { moment } from '../parts/time.ts';
import { idOf } from '../path-id.ts';
import { type Answer, page, type SignedInVisit } from '../visit.ts';
import { changesTable } from './mandate-edit.ts';

const MANDATES_PATH = '/console/mandates';
/** GET /console/mandates/<id>/versions: every version with what it changed and its words. */
export async function versionsPage(visit: SignedInVisit): Promise<Answer> {
  const { deps, session, words, language } = visit;
  const text = words.mandates;
  const id = idOf(visit, 'mdt');
  const record = await readMandate(deps.sql, session.accountId, id);
  if (record === undefined) throw unknownMandate();
  const { after: given } = visit.request.query as { readonly after?: unknown };
  const after = typeof given === 'string' && /^[1-9]\d{0,8}$/.test(given) ? Number(given) : null;
  const { versions, next } = await readVersions(deps.sql, session.accountId, id, after);
  const cards = versions.map(({ terms, before, digest, effectiveAt }) => {
    const changes = before === null ? null : mandateChanges(before, terms);
    const body = html`<p class="muted small">${text.since}: ${moment(language, effectiveAt)}<br>${text.digest}:
<code>${digest}</code></p>${
      changes === null ? html`<p>${text.versionFirst}</p>` : changesTable(visit, changes, terms.currency)
    }<details class="behind"><summary>${text.words}</summary><p class="wording">${mandateWords(terms, language)}</p>
</details>`;
    return card(text.versionOf(terms.version), body);
  });
  const title = `${text.versions}: ${record.name}`;
  const own = `${MANDATES_PATH}/${id}`;
  const path = `${own}/versions`;
  const links = pager(
    after === null ? null : { label: text.newest, path },
    next === null ? null : { label: text.older, path: `${path}?after=${next}` },
  );
  const body = column(crumbs(record.name, own), heading(text.versions, text.versionsLead), cards, links);
  return page('mandates', title, body);
}
