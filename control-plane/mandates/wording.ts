import { ProblemError } from '../../core/errors.ts';
import type { JsonValue } from '../../core/jcs.ts';
import { mandateWords, type WordedTerms, wordingOf } from '../../core/mandate-words.ts';
import type { GivenWording } from './input.ts';

/**
 * The member of evidence that says which wording a person was shown; none where nobody said.
 *
 * @throws ProblemError 409 where that was not the wording of these terms: whoever read it agreed to something else
 */
export function shownWording(terms: WordedTerms, given: GivenWording | undefined): { [name: string]: JsonValue } {
  if (given === undefined) return {};
  const text = mandateWords(terms, given.language);
  if (text === given.text) return { wording: { ...wordingOf(text, given.language) } };
  const detail = 'The wording that was shown is not that of these terms: show it again and let it be read.';
  throw new ProblemError('conflict', detail);
}
