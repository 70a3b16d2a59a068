import { invalidFields } from '../../core/body-value.ts';
import { ProblemError } from '../../core/errors.ts';
import { isSecretToken, secretHash } from '../../core/secret-token.ts';
import type { AuthorisationState } from './account-facts.ts';
import type { AskContext } from './ask.ts';
import { type Booked, book } from './booking.ts';
import type { Lanes } from './lanes.ts';

/** What a route books with; `sandboxAccountId`: whose authorisations anybody's API key may book, if there is one. */
export interface BookingMeans {
  readonly lanes: Pick<Lanes, 'submit'>;
  readonly sandboxAccountId: string | null;
}

/**
 * Runs a booking on the authorisation that a consumption token names, in this account or in the sandbox.
 *
 * @throws ProblemError 422 where `token` is none, naming `field`; 404 where it is not known; what `apply` refuses with
 */
export async function bookByToken<T>(
  { lanes, sandboxAccountId }: BookingMeans,
  asked: { readonly accountId: string; readonly token: string; readonly field: string },
  apply: (context: AskContext, authorisation: AuthorisationState) => Booked<T>,
): Promise<T> {
  const { accountId, token, field } = asked;
  if (!isSecretToken(token, 'ctk')) {
    throw invalidFields([{ field, message: 'must be the consumption_token of an allow (ctk_…)' }]);
  }
  const tokenHash = secretHash(token);
  const own = await book(lanes, { accountId, tokenHash }, apply);
  if (own !== null) return own;
  const other = sandboxAccountId === null ? null : await book(lanes, { accountId: sandboxAccountId, tokenHash }, apply);
  if (other !== null) return other;
  throw new ProblemError('not_found', `There is nothing that this ${field} was given for.`);
}
