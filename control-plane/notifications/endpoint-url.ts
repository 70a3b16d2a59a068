import { invalidFields } from '../../core/body-value.ts';
import { checkHost } from '../gateways/target.ts';

const URL_MAX_CHARACTERS = 2_048;

/**
 * The URL of a receiver in its canonical form; a query is kept, since some receivers name themselves in it.
 *
 * It is `https`, except where private targets are allowed, and its host leads to no private address (which is checked
 * again for each connection).
 *
 * @throws ProblemError 422 naming `url` and what is wrong with it
 */
export async function checkedEndpointUrl(text: string, allowPrivate: boolean): Promise<string> {
  if (text.length > URL_MAX_CHARACTERS) throw refused(`must be at most ${URL_MAX_CHARACTERS} characters`);
  if (!URL.canParse(text)) throw refused('must be a URL such as https://example.com/hooks/mandate');
  const url = new URL(text);
  if (url.protocol !== 'https:' && !(allowPrivate && url.protocol === 'http:'))
    throw refused('must begin with https://');
  if (text.includes('#')) throw refused('must hold no fragment');
  const [, authority = ''] = /^https?:\/\/([^/?]*)/i.exec(text) ?? [];
  if (authority === '' || /[\s@%\\\p{Cc}]/u.test(authority)) {
    throw refused('must have a plain host, without escapes, spaces or user names');
  }
  await checkHost(url, allowPrivate, refused);
  return url.href;
}

function refused(message: string) {
  return invalidFields([{ field: 'url', message }]);
}
