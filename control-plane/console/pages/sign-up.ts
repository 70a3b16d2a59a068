import { z } from 'zod';
import { ProblemError } from '../../../core/errors.ts';
import { countAttempt } from '../../accounts/attempts.ts';
import { passwordInput } from '../../accounts/input.ts';
import { passwordWeakness } from '../../accounts/password.ts';
import { confirmConsoleSignUp, pendingSignUp, SIGNUP_LIFE_MS, signUp } from '../../accounts/sign-up.ts';
import { readForm } from '../form.ts';
import { html } from '../html.ts';
import { setupCard } from '../parts/factor-setup.ts';
import { emptyForm, type FormState, form, submit, textField } from '../parts/form-parts.ts';
import { recoveryCodesPage } from '../parts/recovery-codes.ts';
import { LOGIN_PATH } from '../paths.ts';
import { startSession } from '../session.ts';
import { type Answer, openGet, openPost, originOf, type PageAnswer, page, seeOther, type Visit } from '../visit.ts';
import { addressField, codeField } from './sign-in.ts';

const SIGNUP_PATH = '/console/signup';
const FACTOR_PATH = '/console/signup/factor';

/** Sign-up: address and password, the second factor, the recovery codes; an account is stored after the second. */
export const signUpPages = [
  openGet('/signup', async (visit) => signUpPage(visit, emptyForm())),
  openPost('/signup', begin),
  openGet('/signup/factor', async (visit) => factorPage(visit, emptyForm())),
  openPost('/signup/factor', confirm),
];

async function begin(visit: Visit): Promise<Answer> {
  const { deps, words, reply } = visit;
  const { problems } = words.accounts;
  const schema = z.strictObject({
    email: addressField(problems.email),
    password: passwordInput.min(1, problems.required),
  });
  const read = readForm(visit, schema);
  if (!read.ok) return signUpPage(visit, read.state, 422);
  const { email, password } = read.value;
  const weakness = passwordWeakness(password, email);
  if (weakness !== null) {
    return signUpPage(visit, { ...read.state, errors: { password: problems[weakness] } }, 422);
  }
  await countAttempt(visit);
  const { signup_token: token } = await signUp(deps, { email, password, totpSecret: undefined });
  deps.cookies.set(reply, 'setup', token, SIGNUP_LIFE_MS / 1000);
  return seeOther(FACTOR_PATH);
}

function signUpPage(visit: Visit, state: FormState, status = 200): PageAnswer {
  const { accounts } = visit.words;
  const fields = [
    textField(state, 'email', { label: accounts.email, type: 'email', autocomplete: 'username', required: true }),
    textField(state, 'password', {
      label: accounts.password,
      hint: accounts.passwordHint,
      type: 'password',
      autocomplete: 'new-password',
      required: true,
    }),
    submit(accounts.signUp.submit),
  ];
  const body = html`<section class="card"><header><h1>${accounts.signUp.title}</h1>
<p class="muted">${accounts.signUp.lead}</p></header>${form(visit, SIGNUP_PATH, fields)}</section>
<p class="muted">${accounts.signUp.haveAccount} <a href="${LOGIN_PATH}">${accounts.signUp.logIn}</a></p>`;
  return page(null, accounts.signUp.title, body, { status });
}

async function factorPage(visit: Visit, state: FormState, status = 200): Promise<Answer> {
  const { deps, request, words } = visit;
  const token = deps.cookies.read(request, 'setup');
  const pending = token === null ? null : await pendingSignUp(deps, token);
  if (pending === null) return seeOther(SIGNUP_PATH, 'accounts.setup_gone');
  const body = await setupCard(visit, FACTOR_PATH, pending, state);
  return page(null, words.accounts.setup.title, body, { status });
}

async function confirm(visit: Visit): Promise<Answer> {
  const { deps, request, words } = visit;
  const read = readForm(visit, z.strictObject({ code: codeField(words.accounts.problems.code) }));
  if (!read.ok) return factorPage(visit, read.state, 422);
  const token = deps.cookies.read(request, 'setup') ?? '';
  try {
    const code = read.value.code.replaceAll(' ', '');
    const { session, recoveryCodes } = await confirmConsoleSignUp(deps, token, code, originOf(visit));
    startSession(visit, session.token);
    return recoveryCodesPage(visit, recoveryCodes);
  } catch (error) {
    if (!(error instanceof ProblemError)) throw error;
    if (error.code === 'conflict') {
      deps.cookies.clear(visit.reply, 'setup');
      return seeOther(LOGIN_PATH, 'accounts.taken');
    }
    if (error.code !== 'invalid') throw error;
    return factorPage(visit, { ...read.state, errors: { code: words.accounts.wrongCode } }, 422);
  }
}
