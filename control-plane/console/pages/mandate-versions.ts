import { mandateChanges } from '../../../core/mandate-changes.ts';
import { mandateWords } from '../../../core/mandate-words.ts';
import { readVersions } from '../../mandates/change.ts';
import { unknownMandate } from '../../mandates/routes.ts';
import { readMandates } from '../../mandates/view.ts';
import { html } from '../html.ts';
import { card, column, crumbs, heading } from '../parts/page-parts.ts';
import { moment } from '../parts/time.ts';
import { idOf } from '../path-id.ts';
import { type Answer, page, type SignedInVisit } from '../visit.ts';
import { changesTable } from './mandate-edit.ts';

const MANDATES_PATH = '/console/mandates';
/** Versions that a page shows, the newest: what is older is in the evidence. */
const VERSIONS_SHOWN = 50;

/** GET /console/mandates/<id>/versions: every version with what it changed and its words. */
export async function versionsPage(visit: SignedInVisit): Promise<Answer> {
  const { deps, session, words, language } = visit;
  const text = words.mandates;
  const id = idOf(visit, 'mdt');
  const [record] = await readMandates(deps.sql, session.accountId, id);
  if (record === undefined) throw unknownMandate();
  const versions = await readVersions(deps.sql, session.accountId, id);
  const cards = versions.slice(0, VERSIONS_SHOWN).map(({ terms, digest, effectiveAt }, at) => {
    const before = versions[at + 1];
    const changes = before === undefined ? null : mandateChanges(before.terms, terms);
    const body = html`<p class="muted small">${text.since}: ${moment(language, effectiveAt)}<br>${text.digest}:
<code>${digest}</code></p>${
      changes === null ? html`<p>${text.versionFirst}</p>` : changesTable(visit, changes, terms.currency)
    }<details class="behind"><summary>${text.words}</summary><p class="wording">${mandateWords(terms, language)}</p>
</details>`;
    return card(text.versionOf(terms.version), body);
  });
  const title = `${text.versions}: ${record.name}`;
  const own = `${MANDATES_PATH}/${id}`;
  return page('mandates', title, column(crumbs(record.name, own), heading(text.versions, text.versionsLead), cards));
}
