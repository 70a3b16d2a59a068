import { confirmSession } from '../accounts/second-factor.ts';
import { FRESH_FACTOR_MS, SESSION_LIFE_MS } from '../accounts/sessions.ts';
import type { Fragment } from './html.ts';
import type { FormState } from './parts/form-parts.ts';
import { textField } from './parts/form-parts.ts';
import { CONFIRM_PATH, CONSOLE_PREFIX, nextPath } from './paths.ts';
import { ElsewhereFirst, type SignedInVisit, type Visit } from './visit.ts';

/** The field of a code within another form; see {@link factorField}. */
export const FACTOR_FIELD = 'factor_code';

/** Has the browser use this session from now on; what it had before the sign-in is forgotten. */
export function startSession(visit: Visit, token: string): void {
  const { deps, reply, secret } = visit;
  deps.cookies.set(reply, 'session', token, SESSION_LIFE_MS / 1000);
  for (const name of ['visit', 'setup', 'challenge'] as const) deps.cookies.clear(reply, name);
  secret.value = token;
}

/** Has the browser forget its session. */
export function endSession({ deps, reply }: Visit): void {
  deps.cookies.clear(reply, 'session');
}

/** Whether this session showed a second factor within the last `maxAgeMs`. */
export function isFactorFresh({ session }: SignedInVisit, maxAgeMs = FRESH_FACTOR_MS): boolean {
  return session.nowMs - session.factorMs <= maxAgeMs;
}

/**
 * Lets only a session pass that showed a second factor within the last `maxAgeMs`; any other visitor confirms first and
 * comes back to `next` (this page, where it is one that is read).
 *
 * @throws ElsewhereFirst
 */
export function requireFreshFactor(visit: SignedInVisit, maxAgeMs = FRESH_FACTOR_MS, next?: string): void {
  if (isFactorFresh(visit, maxAgeMs)) return;
  const { method, url } = visit.request;
  const back = nextPath(next ?? (method === 'GET' ? url : CONSOLE_PREFIX));
  throw new ElsewhereFirst(`${CONFIRM_PATH}?next=${encodeURIComponent(back)}`);
}

/** The field for a code in a form that needs a fresh second factor; nothing where it is fresh already. */
export function factorField(visit: SignedInVisit, state: FormState, maxAgeMs = FRESH_FACTOR_MS): Fragment {
  if (isFactorFresh(visit, maxAgeMs)) return null;
  const { code, codeHint } = visit.words.accounts;
  return textField(state, FACTOR_FIELD, {
    label: code,
    hint: codeHint,
    autocomplete: 'one-time-code',
    code: true,
    required: true,
    keep: false,
    maxlength: 32,
  });
}

/**
 * Whether such a form may go on: the second factor is fresh, or the code in it is right, which then is used up. The
 * session has a new token after that. Check everything else before, so that no code is spent for nothing.
 *
 * @throws ProblemError 429 `locked_out`
 */
export async function takeFactor(
  visit: SignedInVisit,
  code: string | undefined,
  maxAgeMs = FRESH_FACTOR_MS,
): Promise<boolean> {
  if (isFactorFresh(visit, maxAgeMs)) return true;
  if (code === undefined || code === '') return false;
  const token = await confirmSession(visit.deps, visit.session, code);
  if (token === null) return false;
  startSession(visit, token);
  return true;
}
