import { isTypeId } from '../../../core/type-id.ts';
import { type ListedMandate, listMandates } from '../../mandates/view.ts';
import { type Html, html } from '../html.ts';
import { statusBadge } from '../parts/mandate-status.ts';
import { money } from '../parts/money.ts';
import { bar, buttonLink, column, emptyState, heading, pager, table } from '../parts/page-parts.ts';
import { type Answer, get, page, type SignedInVisit } from '../visit.ts';
import { mandateEditPages } from './mandate-edit.ts';
import { credentialFile, mandatePage } from './mandate-page.ts';
import { mandateStepPages } from './mandate-steps.ts';
import { versionsPage } from './mandate-versions.ts';
import { mandateWizardPages } from './mandate-wizard.ts';

const MANDATES_PATH = '/console/mandates';

/** Mandates: the list, the wizard, what one of them allows, its versions and its steps. */
export const mandatePages = [
  get('/mandates', list),
  ...mandateWizardPages,
  get('/mandates/:id', mandatePage),
  get('/mandates/:id/versions', versionsPage),
  get('/mandates/:id/credential', credentialFile),
  ...mandateEditPages,
  ...mandateStepPages,
];

async function list(visit: SignedInVisit): Promise<Answer> {
  const { words, deps, session, request } = visit;
  const text = words.mandates;
  const { after: given } = request.query as { readonly after?: unknown };
  const after = isTypeId(given, 'mdt') ? given : null;
  const { mandates: records, next } = await listMandates(deps.sql, session.accountId, after);
  const links = pager(
    after === null ? null : { label: text.newest, path: MANDATES_PATH },
    next === null ? null : { label: text.older, path: `${MANDATES_PATH}?after=${next}` },
  );
  const create = buttonLink(text.create, `${MANDATES_PATH}/new`, true);
  const body =
    records.length === 0 && after === null
      ? column(heading(text.title, text.lead), emptyState(text.emptyTitle, text.emptyText, create))
      : column(heading(text.title, text.lead, create), mandatesTable(visit, records), links);
  return page('mandates', text.title, body);
}

function mandatesTable({ words, language }: SignedInVisit, records: readonly ListedMandate[]): Html {
  const text = words.mandates;
  const rows = records.map((record) => {
    const { terms } = record;
    const limit = money(language, terms.per_month, terms.currency);
    const used = money(language, record.booked + record.reserved, terms.currency);
    return [
      html`<a href="${MANDATES_PATH}/${terms.mandate_id}">${record.name}</a>`,
      statusBadge(words, record.status),
      html`<span class="small">${terms.scope.slice(0, 3).join(', ')}${terms.scope.length > 3 ? ', …' : null}</span>`,
      html`<span class="number">${money(language, terms.per_action, terms.currency)}</span>`,
      html`${usageBar(record)}<span class="small">${text.ofLimit(used, limit)}</span>`,
    ];
  });
  const columns = [
    { label: text.name, kind: 'main' },
    { label: text.status },
    { label: text.actions },
    { label: text.perAction },
    { label: text.month },
  ] as const;
  return table(text.title, columns, rows);
}

/** The month of a mandate as a bar against its limit. */
function usageBar({ terms, booked, reserved }: ListedMandate): Html {
  return bar(terms.per_month, [
    { kind: 'booked', amount: booked, label: '' },
    { kind: 'reserved', amount: reserved, label: '' },
  ]);
}
