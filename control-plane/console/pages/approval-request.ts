import type { EscalationRecord } from '../../escalations/store.ts';
import { type Fragment, type Html, html } from '../html.ts';
import { inertText } from '../parts/inert-text.ts';
import { card, facts } from '../parts/page-parts.ts';
import { APPROVALS_PATH } from '../paths.ts';
import type { SignedInVisit } from '../visit.ts';

/** Characters of a body on the card, which is to be quick on a phone; all of it is one press away. */
const BODY_SHOWN_CHARACTERS = 8_000;

/** The request on the gateway path, whole and as it was stored. */
export function requestCard(visit: SignedInVisit, record: EscalationRecord): Html {
  const text = visit.words.approvals;
  const { request } = record;
  if (request === null) return card(text.requestTitle, html`<p>${text.requestNone}</p>`);
  const { method, path, query, body_sha256: digest, tool } = request;
  const rows: (readonly [string, Fragment])[] = [
    [text.method, html`<code>${inertText(`${method} ${path}`)}</code>`],
    [text.query, query === '' ? text.queryNone : html`<code>${inertText(query)}</code>`],
    ...(tool === null ? [] : ([[text.tool, html`<code>${inertText(tool)}</code>`]] as const)),
    ...(digest === null ? [] : ([[text.bodyDigest, html`<code class="small">${digest}</code>`]] as const)),
  ];
  return card(text.requestTitle, html`${facts(rows)}${body(visit, record)}`, text.requestLead);
}

function body(visit: SignedInVisit, { id, request, requestBody }: EscalationRecord): Html {
  const text = visit.words.approvals;
  if (requestBody === null) {
    return html`<p class="muted">${(request?.body_sha256 ?? null) === null ? text.bodyNone : text.bodyNotKept}</p>`;
  }
  const { shown, encoding } = bodyText(requestBody);
  const cut = shown.length > BODY_SHOWN_CHARACTERS;
  const counts = [BODY_SHOWN_CHARACTERS, shown.length].map((count) => count.toLocaleString(visit.language));
  const note = cut ? html`<p class="small">${text.bodyCut(counts[0] ?? '', counts[1] ?? '')}</p>` : null;
  return html`<div class="stack"><h3>${text.body}</h3>${
    encoding === 'base64' ? html`<p class="small">${text.bodyBinary}</p>` : null
  }<pre class="request-body" tabindex="0" role="group" aria-label="${text.body}">${inertText(
    shown.slice(0, BODY_SHOWN_CHARACTERS),
    { lines: true },
  )}</pre>${note}${cut ? html`<p><a href="${APPROVALS_PATH}/${id}/body">${text.bodyWhole}</a></p>` : null}</div>`;
}

/** A body as text where it is UTF-8, else as base64. */
function bodyText(bytes: Buffer): { readonly shown: string; readonly encoding: 'utf-8' | 'base64' } {
  try {
    return { shown: new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes), encoding: 'utf-8' };
  } catch {
    return { shown: bytes.toString('base64'), encoding: 'base64' };
  }
}
