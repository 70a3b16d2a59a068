import { type Fragment, type Html, html } from '../html.ts';
import type { Visit } from '../visit.ts';
import { type FormState, form, submit, textField } from './form-parts.ts';
import { secretLine } from './page-parts.ts';
import { qrCode } from './qr-code.ts';

/** The card that sets up an authenticator app: QR code, key, and the field for its first code. */
export async function setupCard(
  visit: Visit,
  action: string,
  pending: { readonly secret: string; readonly otpauthUri: string },
  state: FormState,
  more: Fragment = null,
): Promise<Html> {
  const { accounts, shell } = visit.words;
  const { setup } = accounts;
  const key = (pending.secret.match(/.{1,4}/g) ?? []).join(' ');
  const field = textField(state, 'code', {
    label: accounts.code,
    hint: accounts.digitsHint,
    autocomplete: 'one-time-code',
    inputmode: 'numeric',
    code: true,
    required: true,
    keep: false,
    maxlength: 8,
  });
  const code = await qrCode(pending.otpauthUri, setup.qr);
  return html`<section class="card"><header><h1>${setup.title}</h1><p class="muted">${setup.lead}</p></header>
<p>${setup.scan}</p><div class="setup">${code}<div class="stack">
<h2 class="small muted">${setup.key}</h2>${secretLine('totp-key', key, shell)}${form(visit, action, [
    field,
    more,
    submit(setup.submit),
  ])}</div></div></section>`;
}
