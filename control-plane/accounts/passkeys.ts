import type {
  AuthenticationResponseJSON,
  RegistrationResponseJSON,
  VerifiedAuthenticationResponse,
} from '@simplewebauthn/server';
import { newTypeId } from '../../core/type-id.ts';
import type { Custody } from '../custody/custody.ts';
import type { Sql } from '../db/client.ts';
import type { CommandContext } from '../decisions/command.ts';
import type { RouteDependencies } from '../http/dependencies.ts';
import { databaseTime } from './database-time.ts';
import { createSession, renewSession, type Session, type SessionAnswer, type SessionOrigin } from './sessions.ts';

/** Passkeys of one account: every device of a person, with room. */
export const PASSKEYS_MAX = 20;
/** Time to find the device and touch it. */
const CHALLENGE_LIFE_MS = 5 * 60_000;
const RP_NAME = 'Mandate Gateway';
/** COSE: Ed25519, ES256, RS256. */
const ALGORITHMS = [-8, -7, -257];
const TRANSPORTS: ReadonlySet<string> = new Set(['ble', 'cable', 'hybrid', 'internal', 'nfc', 'smart-card', 'usb']);

/** Loaded when the first passkey is used: it holds 29 MB, which most control planes never need. */
const webauthn = () => import('@simplewebauthn/server');

/** Who asks for passkeys: the name that they are bound to, and the origins of its pages (WebAuthn §4, RP ID). */
export interface RelyingParty {
  readonly id: string;
  readonly origins: readonly string[];
}

/** A passkey as its owner sees it; times in Unix milliseconds. */
export interface PasskeyRecord {
  readonly passkey_id: string;
  readonly name: string;
  readonly created_at: number;
  readonly last_used_at: number | null;
}

/** What a browser is asked to sign, and the sealed note of it that comes back with the answer. */
export interface PasskeyChallenge {
  readonly options: object;
  readonly sealed: string;
}

/** What a challenge was made for. */
type Purpose = 'register' | 'use';

interface Note {
  readonly challenge: string;
  readonly purpose: Purpose;
  readonly atMs: number;
}

type Deps = Pick<RouteDependencies, 'sql' | 'commands' | 'custody'>;

/** The passkeys of an account, the newest first. */
export async function readPasskeys(sql: Sql, accountId: string): Promise<PasskeyRecord[]> {
  return sql<PasskeyRecord[]>`
    select passkey_id, name, epoch_ms(created_at) as created_at, epoch_ms(last_used_at) as last_used_at
    from passkeys where account_id = ${accountId} order by passkey_id desc limit ${PASSKEYS_MAX}`;
}

/** Begins a passkey: it stays on its device, and asks for a fingerprint, a face or a PIN. */
export async function beginPasskey(
  deps: Deps,
  party: RelyingParty,
  account: { readonly accountId: string; readonly email: string },
): Promise<PasskeyChallenge> {
  const known = await deps.sql<{ credential_id: Buffer; transports: string[] }[]>`
    select credential_id, transports from passkeys where account_id = ${account.accountId}`;
  const options = await (await webauthn()).generateRegistrationOptions({
    rpName: RP_NAME,
    rpID: party.id,
    userName: account.email,
    userID: new Uint8Array(Buffer.from(account.accountId, 'utf8')),
    attestationType: 'none',
    excludeCredentials: known.map(({ credential_id: id, transports }) => ({
      id: id.toString('base64url'),
      transports,
    })),
    authenticatorSelection: { residentKey: 'required', userVerification: 'required' },
    supportedAlgorithmIDs: ALGORITHMS,
    timeout: CHALLENGE_LIFE_MS,
  });
  return { options, sealed: await noteOf(deps, account.accountId, 'register', options.challenge) };
}

/** Keeps the passkey that answers a challenge of {@link beginPasskey}; false where it cannot be accepted. */
export async function addPasskey(
  deps: Deps,
  party: RelyingParty,
  accountId: string,
  answer: { readonly sealed: string; readonly response: unknown; readonly name: string },
): Promise<boolean> {
  const note = await openNote(deps, accountId, 'register', answer.sealed);
  if (note === null) return false;
  const verified = await (await webauthn())
    .verifyRegistrationResponse({
      response: answer.response as RegistrationResponseJSON,
      expectedChallenge: note.challenge,
      expectedOrigin: [...party.origins],
      expectedRPID: party.id,
      requireUserVerification: true,
      supportedAlgorithmIDs: ALGORITHMS,
    })
    .catch(() => null);
  if (verified?.verified !== true) return false;
  const { credential, credentialBackedUp } = verified.registrationInfo;
  return deps.commands.command(accountId, async (context) => {
    const { sql, nowMs } = context;
    const [{ count = 0 } = {}] = await sql<{ count: number }[]>`
      select count(*) as count from passkeys where account_id = ${accountId}`;
    if (Number(count) >= PASSKEYS_MAX) return false;
    const id = newTypeId('psk', nowMs);
    const transports = (credential.transports ?? []).filter((one) => TRANSPORTS.has(one));
    const added = await sql`
      insert into passkeys (account_id, passkey_id, credential_id, public_key, counter, transports, name, backed_up,
        created_at)
      values (${accountId}, ${id}, ${Buffer.from(credential.id, 'base64url')}, ${Buffer.from(credential.publicKey)},
        ${credential.counter}::bigint, ${transports}::text[], ${answer.name}, ${credentialBackedUp}, ${nowMs})
      on conflict (credential_id) do nothing returning passkey_id`;
    if (added.length === 0) return false;
    context.append('account.passkey_added', { passkey_id: id, name: answer.name });
    const facts = JSON.stringify({ passkey_id: id, name: answer.name });
    await sql`select record_notification(${accountId}, 'account.passkey_added', null, ${facts}::text::jsonb)`;
    return true;
  });
}

/** Removes a passkey within a command; returns whether there was one. */
export async function removePasskey({ sql, accountId, append }: CommandContext, id: string): Promise<boolean> {
  const gone = await sql`
    delete from passkeys where account_id = ${accountId} and passkey_id = ${id} returning passkey_id`;
  if (gone.length > 0) append('account.passkey_removed', { passkey_id: id });
  return gone.length > 0;
}

/** Begins the use of a passkey, by whoever has one: nothing is said about who that may be. */
export async function beginPasskeyUse(deps: Deps, party: RelyingParty): Promise<PasskeyChallenge> {
  const options = await (await webauthn()).generateAuthenticationOptions({
    rpID: party.id,
    userVerification: 'required',
    timeout: CHALLENGE_LIFE_MS,
  });
  return { options, sealed: await noteOf(deps, '', 'use', options.challenge) };
}

/** Signs in whoever's passkey answers the challenge: it is both factors at once. Null where none does. */
export async function signInByPasskey(
  deps: Deps,
  party: RelyingParty,
  answer: { readonly sealed: string; readonly response: unknown },
  origin: SessionOrigin,
): Promise<SessionAnswer | null> {
  return usePasskey(deps, party, answer, null, (context) => createSession(context, origin));
}

/** Confirms a session by a passkey of its account; returns its new token, or null where that is none. */
export async function confirmByPasskey(
  deps: Deps,
  party: RelyingParty,
  answer: { readonly sealed: string; readonly response: unknown },
  session: Session,
): Promise<string | null> {
  return usePasskey(deps, party, answer, session.accountId, async (context) => {
    const token = await renewSession(context, session.sessionId);
    if (token !== null) context.append('session.confirmed', { session_id: session.sessionId, factor: 'passkey' });
    return token;
  });
}

interface StoredPasskey {
  readonly account_id: string;
  readonly passkey_id: string;
  readonly public_key: Buffer;
  readonly counter: number;
}

/**
 * Verifies a passkey's answer and runs `effect` in a command of its account. A challenge works once a passkey: it must
 * have been made after that one's last use, which moves under the account's lock.
 */
async function usePasskey<T>(
  deps: Deps,
  party: RelyingParty,
  { sealed, response }: { readonly sealed: string; readonly response: unknown },
  accountId: string | null,
  effect: (context: CommandContext) => Promise<T | null>,
): Promise<T | null> {
  const note = await openNote(deps, '', 'use', sealed);
  const id = credentialIdOf(response);
  if (note === null || id === null) return null;
  const [row] = await deps.sql<StoredPasskey[]>`
    select account_id, passkey_id, public_key, counter from passkeys
    where credential_id = ${id} and (${accountId}::text is null or account_id = ${accountId})`;
  if (row === undefined) return null;
  const verified = await (await webauthn())
    .verifyAuthenticationResponse({
      response: response as AuthenticationResponseJSON,
      expectedChallenge: note.challenge,
      expectedOrigin: [...party.origins],
      expectedRPID: party.id,
      requireUserVerification: true,
      credential: {
        id: id.toString('base64url'),
        publicKey: new Uint8Array(row.public_key),
        counter: Number(row.counter),
      },
    })
    .catch((): VerifiedAuthenticationResponse | null => null);
  if (verified?.verified !== true) return null;
  const { newCounter } = verified.authenticationInfo;
  return deps.commands.command(row.account_id, async (context) => {
    const moved = await context.sql`
      update passkeys set last_used_at = ${context.nowMs}, counter = ${newCounter}::bigint
      where account_id = ${row.account_id} and passkey_id = ${row.passkey_id}
        and (last_used_at is null or last_used_at < ${note.atMs})
        and (counter < ${newCounter}::bigint or (counter = 0 and ${newCounter}::bigint = 0))
      returning passkey_id`;
    return moved.length === 0 ? null : effect(context);
  });
}

/** The credential that a browser's answer names, or null where it is no such answer. */
function credentialIdOf(response: unknown): Buffer | null {
  const id = typeof response === 'object' && response !== null && 'id' in response ? response.id : null;
  return typeof id === 'string' && /^[A-Za-z0-9_-]{1,1364}$/.test(id) ? Buffer.from(id, 'base64url') : null;
}

async function noteOf(deps: Deps, accountId: string, purpose: Purpose, challenge: string): Promise<string> {
  const note: Note = { challenge, purpose, atMs: await databaseTime(deps.sql) };
  return sealedNote(deps.custody, accountId, note);
}

function sealedNote(custody: Custody, accountId: string, note: Note): string {
  return custody.seal(accountId, 'console', 'passkey', Buffer.from(JSON.stringify(note), 'utf8')).toString('base64url');
}

async function openNote(deps: Deps, accountId: string, purpose: Purpose, sealed: string): Promise<Note | null> {
  const nowMs = await databaseTime(deps.sql);
  try {
    const text = deps.custody.open(accountId, 'console', 'passkey', Buffer.from(sealed, 'base64url')).toString('utf8');
    const note = JSON.parse(text) as Note;
    return note.purpose === purpose && nowMs - note.atMs < CHALLENGE_LIFE_MS ? note : null;
  } catch {
    return null;
  }
}
