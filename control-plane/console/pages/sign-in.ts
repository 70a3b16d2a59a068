import { z } from 'zod';
import { ProblemError } from '../../../core/errors.ts';
import { countAttempt } from '../../accounts/attempts.ts';
import { emailInput, passwordInput } from '../../accounts/input.ts';
import { confirmSession } from '../../accounts/second-factor.ts';
import { revokeSession, revokeSessions } from '../../accounts/sessions.ts';
import { signIn } from '../../accounts/sign-in.ts';
import { problemText } from '../errors.ts';
import { readForm } from '../form.ts';
import { type Fragment, type Html, html } from '../html.ts';
import { emptyForm, type FormState, form, submit, textField } from '../parts/form-parts.ts';
import { notice } from '../parts/page-parts.ts';
import { passkeyForm } from '../parts/passkey-form.ts';
import { CONFIRM_PATH, CONSOLE_PREFIX, LOGIN_PATH, nextPath } from '../paths.ts';
import { endSession, startSession } from '../session.ts';
import {
  type Answer,
  get,
  openGet,
  openPost,
  originOf,
  type PageAnswer,
  page,
  post,
  type SignedInVisit,
  seeOther,
  type Visit,
} from '../visit.ts';
import type { Words } from '../words.ts';

/** A recovery code with its hyphens, and some spaces. */
export const CODE_MAX_CHARACTERS = 32;

/** Sign-in, sign-out, and the confirmation that some steps need. */
export const signInPages = [
  openGet('/login', async (visit) => {
    if (visit.session !== null) return seeOther(nextPath(nextOf(visit)));
    return loginPage(visit, emptyForm({ next: nextOf(visit) ?? '' }));
  }),
  openPost('/login', login),
  post('/logout', async (visit) => {
    const { deps, session } = visit;
    await deps.commands.command(session.accountId, (context) => revokeSession(context, session.sessionId));
    endSession(visit);
    return seeOther(LOGIN_PATH, 'accounts.signed_out');
  }),
  post('/logout/everywhere', async (visit) => {
    const { deps, session } = visit;
    await deps.commands.command(session.accountId, (context) => revokeSessions(context, null, 'signed_out_everywhere'));
    endSession(visit);
    return seeOther(LOGIN_PATH, 'accounts.signed_out_everywhere');
  }),
  get('/confirm', async (visit) => confirmPage(visit, emptyForm({ next: nextOf(visit) ?? '' }))),
  post('/confirm', confirm),
];

function loginForm({ accounts: { problems } }: Words) {
  return z.strictObject({
    email: addressField(problems.email),
    password: passwordInput.min(1, problems.required),
    code: codeField(problems.code),
    next: z.string().optional(),
  });
}

/** Zod: an e-mail address as people type it. */
export function addressField(problem: string) {
  return z
    .string(problem)
    .transform((text) => text.trim())
    .refine((text) => emailInput.safeParse(text).success, problem)
    .transform((text) => text.toLowerCase());
}

/** Zod: six digits or a recovery code; whether it is right is another question. */
export function codeField(problem: string) {
  return z.string(problem).trim().min(6, problem).max(CODE_MAX_CHARACTERS, problem);
}

async function login(visit: Visit): Promise<Answer> {
  const { deps, words } = visit;
  const read = readForm(visit, loginForm(words));
  if (!read.ok) return loginPage(visit, read.state, 422);
  await countAttempt(visit);
  const { email, password, code, next } = read.value;
  try {
    const answer = await signIn(deps, deps.unknownAddresses, { email, password, code }, originOf(visit));
    startSession(visit, answer.token);
    return seeOther(nextPath(next));
  } catch (error) {
    if (!(error instanceof ProblemError)) throw error;
    if (error.code === 'unauthenticated') {
      const { wrong, wrongHint } = words.accounts.login;
      return loginPage(visit, read.state, 422, notice('bad', wrong, html`<p>${wrongHint}</p>`));
    }
    if (error.code !== 'locked_out') throw error;
    visit.reply.header('retry-after', error.retryAfterSeconds ?? 1);
    return loginPage(visit, read.state, error.status, notice('warn', problemText(words, error)));
  }
}

function loginPage(visit: Visit, state: FormState, status = 200, above: Fragment = null): PageAnswer {
  const { accounts } = visit.words;
  const { login: words } = accounts;
  const next = nextPath(state.values['next']);
  const fields = [
    html`<input type="hidden" name="next" value="${next}">`,
    textField(state, 'email', { label: accounts.email, type: 'email', autocomplete: 'username', required: true }),
    textField(state, 'password', {
      label: accounts.password,
      type: 'password',
      autocomplete: 'current-password',
      required: true,
    }),
    textField(state, 'code', {
      label: accounts.code,
      hint: accounts.codeHint,
      autocomplete: 'one-time-code',
      code: true,
      required: true,
      keep: false,
      maxlength: CODE_MAX_CHARACTERS,
    }),
    submit(words.submit),
  ];
  const passkey = passkeyForm(visit, {
    use: 'get',
    begin: '/console/passkeys/challenge',
    finish: '/console/passkeys/login',
    label: words.passkey,
    fields: { next },
  });
  const body = html`<section class="card"><header><h1>${words.title}</h1>${
    next === CONSOLE_PREFIX ? null : html`<p class="muted">${words.again}</p>`
  }</header>${above}${form(visit, LOGIN_PATH, fields)}${or(words.or)}${passkey}</section>
<p class="muted">${words.noAccount} <a href="/console/signup">${words.signUp}</a></p>`;
  return page(null, words.title, body, { status, scripts: ['passkeys'] });
}

function or(text: string): Html {
  return html`<p class="or" data-needs-script>${text}</p>`;
}

async function confirm(visit: SignedInVisit): Promise<Answer> {
  const { deps, words, session } = visit;
  const schema = z.strictObject({ code: codeField(words.accounts.problems.code), next: z.string().optional() });
  const read = readForm(visit, schema);
  if (!read.ok) return confirmPage(visit, read.state, 422);
  try {
    const token = await confirmSession(deps, session, read.value.code);
    if (token === null) {
      const errors = { code: words.accounts.wrongCode };
      return confirmPage(visit, { ...read.state, errors }, 422);
    }
    startSession(visit, token);
    return seeOther(nextPath(read.value.next));
  } catch (error) {
    if (!(error instanceof ProblemError) || error.code !== 'locked_out') throw error;
    visit.reply.header('retry-after', error.retryAfterSeconds ?? 1);
    return confirmPage(visit, read.state, error.status, notice('warn', problemText(words, error)));
  }
}

function confirmPage(visit: SignedInVisit, state: FormState, status = 200, above: Fragment = null): PageAnswer {
  const { accounts, shell } = visit.words;
  const next = nextPath(state.values['next']);
  const fields = [
    html`<input type="hidden" name="next" value="${next}">`,
    textField(state, 'code', {
      label: accounts.code,
      hint: accounts.codeHint,
      autocomplete: 'one-time-code',
      code: true,
      required: true,
      autofocus: true,
      keep: false,
      maxlength: CODE_MAX_CHARACTERS,
    }),
    submit(accounts.confirm.submit),
  ];
  const passkey = passkeyForm(visit, {
    use: 'get',
    begin: '/console/passkeys/challenge',
    finish: '/console/passkeys/confirm',
    label: accounts.confirm.passkey,
    fields: { next },
  });
  const body = html`<section class="card"><header><h1>${accounts.confirm.title}</h1>
<p class="muted">${accounts.confirm.lead}</p></header>${above}${form(visit, CONFIRM_PATH, fields)}${or(
    accounts.login.or,
  )}${passkey}</section><p><a href="${CONSOLE_PREFIX}">${shell.cancel}</a></p>`;
  return page(null, accounts.confirm.title, body, { status, scripts: ['passkeys'] });
}

function nextOf({ request }: Visit): string | undefined {
  const { next } = request.query as { readonly next?: unknown };
  return typeof next === 'string' ? next : undefined;
}
