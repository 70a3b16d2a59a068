import { z } from 'zod';
import { ProblemError } from '../../../core/errors.ts';
import { isTypeId } from '../../../core/type-id.ts';
import { countAttempt } from '../../accounts/attempts.ts';
import {
  addPasskey,
  beginPasskey,
  beginPasskeyUse,
  confirmByPasskey,
  type RelyingParty,
  removePasskey,
  signInByPasskey,
} from '../../accounts/passkeys.ts';
import { readForm } from '../form.ts';
import { nextPath } from '../paths.ts';
import { requireFreshFactor, startSession } from '../session.ts';
import { type Answer, type ConsoleDependencies, openPost, originOf, post, seeOther, type Visit } from '../visit.ts';

/** A browser's answer has a public key or a signature, and little else. */
const RESPONSE_MAX_CHARACTERS = 16_384;
const NAME_MAX_CHARACTERS = 60;
/** The cookie of a challenge lives no longer than it may be answered. */
const CHALLENGE_SECONDS = 5 * 60;
const ACCOUNT_PATH = '/console/account';

/** What a script asks for; each answers JSON. */
export const passkeyPages = [
  openPost('/passkeys/challenge', async (visit) => {
    const { options, sealed } = await beginPasskeyUse(visit.deps, relyingParty(visit.deps));
    visit.deps.cookies.set(visit.reply, 'challenge', sealed, CHALLENGE_SECONDS);
    return json({ options });
  }),
  openPost('/passkeys/login', async (visit) => {
    await countAttempt(visit);
    const given = readResponse(visit);
    const session =
      given === null ? null : await signInByPasskey(visit.deps, relyingParty(visit.deps), given, originOf(visit));
    if (session === null) return refused(visit);
    startSession(visit, session.token);
    return json({ to: nextPath(given?.next) });
  }),
  post('/passkeys/confirm', async (visit) => {
    const given = readResponse(visit);
    const party = relyingParty(visit.deps);
    const token = given === null ? null : await confirmByPasskey(visit.deps, party, given, visit.session);
    if (token === null) return refused(visit);
    startSession(visit, token);
    return json({ to: nextPath(given?.next) });
  }),
  post('/passkeys/new', async (visit) => {
    requireFreshFactor(visit, undefined, ACCOUNT_PATH);
    const { options, sealed } = await beginPasskey(visit.deps, relyingParty(visit.deps), visit.session);
    visit.deps.cookies.set(visit.reply, 'challenge', sealed, CHALLENGE_SECONDS);
    return json({ options });
  }),
  post('/passkeys', async (visit) => {
    requireFreshFactor(visit, undefined, ACCOUNT_PATH);
    const given = readResponse(visit);
    const { accountId } = visit.session;
    const name = given?.name ?? visit.words.accounts.page.passkeyDefault;
    const added =
      given !== null && (await addPasskey(visit.deps, relyingParty(visit.deps), accountId, { ...given, name }));
    if (!added) return refused(visit);
    visit.deps.cookies.clear(visit.reply, 'challenge');
    visit.deps.cookies.set(visit.reply, 'flash', 'accounts.passkey_added');
    return json({ to: ACCOUNT_PATH });
  }),
  post('/passkeys/:id/remove', async (visit) => {
    requireFreshFactor(visit, undefined, ACCOUNT_PATH);
    const { id } = visit.request.params as { readonly id: string };
    const { accountId } = visit.session;
    const removed =
      isTypeId(id, 'psk') && (await visit.deps.commands.command(accountId, (context) => removePasskey(context, id)));
    if (!removed) throw new ProblemError('not_found', 'There is no such passkey.');
    return seeOther(ACCOUNT_PATH, 'accounts.passkey_removed');
  }),
];

/** Passkeys are bound to the service's own name; on this machine to `localhost`, since an address is no name. */
export function relyingParty({ origins }: Pick<ConsoleDependencies, 'origins'>): RelyingParty {
  const local = origins.find((origin) => new URL(origin).hostname === 'localhost');
  const origin = local ?? origins[0] ?? '';
  return { id: new URL(origin).hostname, origins: [origin] };
}

const responseForm = z.strictObject({
  response: z.string().max(RESPONSE_MAX_CHARACTERS),
  name: z
    .string()
    .trim()
    .max(NAME_MAX_CHARACTERS)
    .refine((text) => text.isWellFormed() && !/\p{Cc}/u.test(text))
    .optional(),
  next: z.string().optional(),
});

function readResponse(visit: Visit) {
  const sealed = visit.deps.cookies.read(visit.request, 'challenge');
  const read = readForm(visit, responseForm);
  if (sealed === null || !read.ok) return null;
  const { response, name, next } = read.value;
  try {
    return { sealed, response: JSON.parse(response) as unknown, name: name === '' ? undefined : name, next };
  } catch {
    return null;
  }
}

function json(body: object): Answer {
  return { kind: 'json', status: 200, body };
}

function refused({ words }: Visit): Answer {
  return { kind: 'json', status: 422, body: { message: words.accounts.passkeyRefused } };
}
