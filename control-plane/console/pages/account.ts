import { z } from 'zod';
import { ProblemError } from '../../../core/errors.ts';
import { isTypeId } from '../../../core/type-id.ts';
import { passwordInput } from '../../accounts/input.ts';
import { type PasskeyRecord, readPasskeys } from '../../accounts/passkeys.ts';
import { passwordWeakness } from '../../accounts/password.ts';
import { changePassword } from '../../accounts/password-change.ts';
import { countRecoveryCodes, newRecoveryCodes } from '../../accounts/recovery-codes.ts';
import { newSetup, openSetup, replaceTotp, SETUP_LIFE_MS } from '../../accounts/second-factor.ts';
import { readSessions, revokeSession, type SessionRecord } from '../../accounts/sessions.ts';
import { otpauthUri } from '../../accounts/totp.ts';
import { browserName } from '../browser-name.ts';
import { readForm } from '../form.ts';
import { type Html, html } from '../html.ts';
import { setupCard } from '../parts/factor-setup.ts';
import { buttonForm, check, emptyForm, type FormState, form, submit, textField } from '../parts/form-parts.ts';
import { badge, buttonLink, card, column, heading, notice, table } from '../parts/page-parts.ts';
import { passkeyForm } from '../parts/passkey-form.ts';
import { recoveryCodesPage } from '../parts/recovery-codes.ts';
import { moment } from '../parts/time.ts';
import { LOGIN_PATH } from '../paths.ts';
import { endSession, FACTOR_FIELD, factorField, requireFreshFactor, startSession, takeFactor } from '../session.ts';
import { type Answer, get, type PageAnswer, page, post, type SignedInVisit, seeOther } from '../visit.ts';
import { relyingParty } from './passkeys.ts';
import { CODE_MAX_CHARACTERS, codeField } from './sign-in.ts';

const ACCOUNT_PATH = '/console/account';
const PASSWORD_PATH = '/console/account/password';
const AUTHENTICATOR_PATH = '/console/account/authenticator';
/** The box that ends what else signs in. */
const OTHERS_FIELD = 'remove_others';
const othersInput = { [OTHERS_FIELD]: z.literal('on').optional() } as const;

/** A person's own account: password, second factors, sessions. */
export const accountPages = [
  get('/account', async (visit) => accountPage(visit, emptyForm())),
  post('/account/password', newPassword),
  get('/account/authenticator', async (visit) => authenticatorPage(visit, emptyForm())),
  post('/account/authenticator', newAuthenticator),
  post('/account/recovery-codes', async (visit) => {
    requireFreshFactor(visit, undefined, ACCOUNT_PATH);
    const { deps, session } = visit;
    return recoveryCodesPage(visit, await deps.commands.command(session.accountId, newRecoveryCodes));
  }),
  post('/account/sessions/:id/revoke', async (visit) => {
    const { deps, session, request } = visit;
    const { id } = request.params as { readonly id: string };
    const ended =
      isTypeId(id, 'ses') &&
      (await deps.commands.command(session.accountId, (context) => revokeSession(context, id, 'revoked')));
    if (!ended) throw new ProblemError('not_found', 'There is no such session.');
    if (id !== session.sessionId) return seeOther(ACCOUNT_PATH, 'accounts.session_ended');
    endSession(visit);
    return seeOther(LOGIN_PATH, 'accounts.signed_out');
  }),
];

async function accountPage(visit: SignedInVisit, state: FormState, status = 200): Promise<PageAnswer> {
  const { words, deps, session } = visit;
  const { page: text } = words.accounts;
  const [sessions, passkeys, codes] = await Promise.all([
    readSessions(deps.sql, session.accountId),
    readPasskeys(deps.sql, session.accountId),
    countRecoveryCodes(deps.sql, session.accountId),
  ]);
  const body = column(
    heading(text.title, text.lead(session.email)),
    sessionsCard(visit, sessions),
    passkeysCard(visit, passkeys),
    html`<div class="cards">${card(
      text.factorCard,
      html`<div class="actions">${buttonLink(text.factorSubmit, AUTHENTICATOR_PATH)}</div>`,
      text.factorLead,
    )}${recoveryCard(visit, codes)}</div>`,
    card(text.passwordCard, passwordForm(visit, state), text.passwordLead),
  );
  return page('account', text.title, body, { status, scripts: ['passkeys'] });
}

function sessionsCard(visit: SignedInVisit, sessions: readonly SessionRecord[]): Html {
  const { words, language, session } = visit;
  const { page: text } = words.accounts;
  const rows = sessions.map((one) => {
    const name = one.kind === 'cli' ? text.commandLine : (browserName(one.user_agent) ?? text.unknownBrowser);
    const own = one.session_id === session.sessionId;
    const end = buttonForm(visit, `/console/account/sessions/${one.session_id}/revoke`, text.revoke, { kind: 'small' });
    return [
      html`${name} ${own ? badge('good', text.thisSession) : null}`,
      moment(language, one.created_at),
      moment(language, one.last_seen_at),
      html`<div class="actions">${end}</div>`,
    ];
  });
  const columns = [
    { label: text.device, kind: 'main' },
    { label: text.created },
    { label: text.lastSeen },
    { label: '', kind: 'end' },
  ] as const;
  const everywhere = buttonForm(visit, '/console/logout/everywhere', text.everywhere, { kind: 'danger' });
  const body = html`${table(text.sessionsCard, columns, rows)}<div class="actions">${everywhere}</div>`;
  return card(text.sessionsCard, body, text.sessionsLead);
}

function passkeysCard(visit: SignedInVisit, passkeys: readonly PasskeyRecord[]): Html {
  const { words, language, deps } = visit;
  const { page: text } = words.accounts;
  const rows = passkeys.map((one) => [
    one.name,
    moment(language, one.created_at),
    one.last_used_at === null ? text.never : moment(language, one.last_used_at),
    html`<div class="actions">${buttonForm(visit, `/console/passkeys/${one.passkey_id}/remove`, text.passkeyRemove, {
      kind: 'small danger',
    })}</div>`,
  ]);
  const columns = [
    { label: text.passkeyName, kind: 'main' },
    { label: text.created },
    { label: text.lastUsed },
    { label: '', kind: 'end' },
  ] as const;
  const list =
    rows.length === 0 ? html`<p class="muted">${text.passkeysNone}</p>` : table(text.passkeysCard, columns, rows);
  const [origin = ''] = relyingParty(deps).origins;
  // Where this page is not at the name that passkeys are bound to, a browser would refuse.
  const here = visit.request.headers['x-forwarded-host'] ?? visit.request.headers.host;
  const elsewhere = here !== new URL(origin).host && deps.origins.length > 1;
  const add = passkeyForm(visit, {
    use: 'create',
    begin: '/console/passkeys/new',
    finish: '/console/passkeys',
    label: text.passkeyAdd,
    above: textField(emptyForm(), 'name', { label: text.passkeyName, hint: text.passkeyNameHint, maxlength: 60 }),
  });
  const below = elsewhere
    ? notice('info', text.passkeyAddress(`${origin}${ACCOUNT_PATH}`))
    : html`${add}<p class="muted" data-without-script>${text.passkeyScript}</p>`;
  return card(text.passkeysCard, html`${list}${below}`, text.passkeysLead);
}

function recoveryCard(visit: SignedInVisit, left: number): Html {
  const { recovery, page: text } = visit.words.accounts;
  const status = left === 0 ? badge('bad', recovery.none) : badge(left < 3 ? 'warn' : 'good', recovery.left(left));
  const make = buttonForm(visit, '/console/account/recovery-codes', recovery.make);
  return card(text.recoveryCard, html`<p>${status}</p><div class="actions">${make}</div>`, recovery.makeHint);
}

function passwordForm(visit: SignedInVisit, state: FormState): Html {
  const { accounts } = visit.words;
  return form(visit, PASSWORD_PATH, [
    textField(state, 'present', {
      label: accounts.presentPassword,
      type: 'password',
      autocomplete: 'current-password',
      required: true,
    }),
    textField(state, 'password', {
      label: accounts.newPassword,
      hint: accounts.passwordHint,
      type: 'password',
      autocomplete: 'new-password',
      required: true,
    }),
    othersField(visit, state),
    factorField(visit, state),
    submit(accounts.page.passwordSubmit, ''),
  ]);
}

/** Asks whether what else signs in ends as well: a thief may have added it. */
function othersField({ words }: SignedInVisit, state: FormState): Html {
  const { others, othersHint } = words.accounts.page;
  return check(state, { name: OTHERS_FIELD, label: others, hint: othersHint });
}

async function newPassword(visit: SignedInVisit): Promise<Answer> {
  const { deps, words, session } = visit;
  const { problems } = words.accounts;
  const secret = passwordInput.min(1, problems.required);
  const code = z.string().max(CODE_MAX_CHARACTERS, problems.code).optional();
  const read = readForm(
    visit,
    z.strictObject({ present: secret, password: secret, ...othersInput, [FACTOR_FIELD]: code }),
  );
  if (!read.ok) return accountPage(visit, read.state, 422);
  const { present, password } = read.value;
  const weakness = passwordWeakness(password, session.email);
  if (weakness !== null) return accountPage(visit, { values: {}, errors: { password: problems[weakness] } }, 422);
  if (!(await takeFactor(visit, read.value[FACTOR_FIELD]))) {
    return accountPage(visit, { values: {}, errors: { [FACTOR_FIELD]: words.accounts.wrongCode } }, 422);
  }
  const token = await changePassword(deps, session, {
    ...{ present, next: password, removeOthers: read.value[OTHERS_FIELD] === 'on' },
  });
  if (token === null) return accountPage(visit, { values: {}, errors: { present: problems.wrongPassword } }, 422);
  startSession(visit, token);
  return seeOther(ACCOUNT_PATH, 'accounts.password_changed');
}

async function authenticatorPage(visit: SignedInVisit, state: FormState, status = 200): Promise<Answer> {
  requireFreshFactor(visit, undefined, AUTHENTICATOR_PATH);
  const { deps, session, reply, request, words } = visit;
  const { custody, cookies } = deps;
  const before = cookies.read(request, 'setup');
  let secret = before === null ? null : openSetup(custody, session.accountId, before, session.nowMs);
  if (secret === null) {
    const setup = newSetup(custody, session.accountId, session.nowMs);
    cookies.set(reply, 'setup', setup.sealed, SETUP_LIFE_MS / 1000);
    secret = setup.secret;
  }
  const pending = { secret, otpauthUri: otpauthUri(session.email, secret) };
  return page(
    null,
    words.accounts.setup.title,
    await setupCard(visit, AUTHENTICATOR_PATH, pending, state, othersField(visit, state)),
    {
      status,
    },
  );
}

async function newAuthenticator(visit: SignedInVisit): Promise<Answer> {
  requireFreshFactor(visit, undefined, AUTHENTICATOR_PATH);
  const { deps, session, request, words } = visit;
  const read = readForm(visit, z.strictObject({ code: codeField(words.accounts.problems.code), ...othersInput }));
  if (!read.ok) return authenticatorPage(visit, read.state, 422);
  const sealed = deps.cookies.read(request, 'setup');
  const secret = sealed === null ? null : openSetup(deps.custody, session.accountId, sealed, session.nowMs);
  if (secret === null) return seeOther(AUTHENTICATOR_PATH, 'accounts.setup_gone');
  const token = await replaceTotp(deps, session, {
    ...{ secret, code: read.value.code, removeOthers: read.value[OTHERS_FIELD] === 'on' },
  });
  if (token === null) return authenticatorPage(visit, { values: {}, errors: { code: words.accounts.wrongCode } }, 422);
  startSession(visit, token);
  return seeOther(ACCOUNT_PATH, 'accounts.factor_changed');
}
