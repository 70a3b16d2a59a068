import { isIP } from 'node:net';
import { invalidFields } from '../../core/body-value.ts';
import { resolverFor } from '../../core/name-resolver.ts';
import { isAllowedAddress } from '../../core/target-address.ts';

const URL_MAX_CHARACTERS = 2_048;
const RESOLVE_TIMEOUT_MS = 3_000;

/**
 * A target's base URL in its canonical form: origin and base path, without a trailing slash.
 *
 * Its host is resolved and every address checked; the proxy checks again for each connection. Source: contract §7.
 *
 * @throws ProblemError 422 naming `target_url` and what is wrong with it
 */
export async function checkedTarget(text: string, allowPrivate: boolean): Promise<string> {
  const url = canonical(text);
  await checkHost(url, allowPrivate, refused);
  return url.origin + (url.pathname === '/' ? '' : url.pathname.replace(/\/$/, ''));
}

/** Resolves the host of a URL and checks every address of it; throws what `refused` makes of the reason. */
export async function checkHost(url: URL, allowPrivate: boolean, refused: (message: string) => Error): Promise<void> {
  const host = url.hostname.replace(/^\[|\]$/g, '');
  const addresses = isIP(host) ? [host] : await resolved(host, allowPrivate);
  if (addresses === null) throw refused('has a host that cannot be resolved');
  if (addresses.every((address) => isAllowedAddress(address, allowPrivate))) return;
  throw refused(
    'must not lead to a loopback, private, link-local or metadata address; where that is wanted, ' +
      'the operator sets MANDATE_GATEWAY_ALLOW_PRIVATE_TARGETS=true (never for metadata addresses)',
  );
}

function canonical(text: string): URL {
  if (text.length > URL_MAX_CHARACTERS) throw refused(`must be at most ${URL_MAX_CHARACTERS} characters`);
  if (!URL.canParse(text)) throw refused('must be a URL such as https://api.example.com/v1');
  const url = new URL(text);
  if (url.protocol !== 'https:' && url.protocol !== 'http:') throw refused('must begin with https:// or http://');
  if (text.includes('?') || text.includes('#')) throw refused('must hold no query and no fragment');
  // What the URL parser rewrote would not be what the principal read: backslashes, dot segments, odd spellings.
  const [, authority = '', rest = ''] = /^https?:\/\/([^/]*)(.*)$/is.exec(text) ?? [];
  if (authority === '' || /[\s@%\\\p{Cc}]/u.test(authority)) {
    throw refused('must have a plain host, without escapes, spaces or user names');
  }
  const path = rest || '/';
  if (path !== url.pathname || path.includes('//') || /%|\\/.test(path)) {
    throw refused('must have a plain path, without dot segments, empty segments or escapes');
  }
  return url;
}

async function resolved(host: string, allowPrivate: boolean): Promise<string[] | null> {
  const timeout = AbortSignal.timeout(RESOLVE_TIMEOUT_MS);
  const late = new Promise<never>((_, reject) => {
    timeout.addEventListener('abort', () => reject(new Error('resolving took too long')), { once: true });
  });
  try {
    const found = await Promise.race([resolverFor(allowPrivate)(host), late]);
    return found.map(({ address }) => address);
  } catch {
    return null;
  }
}

function refused(message: string) {
  return invalidFields([{ field: 'target_url', message }]);
}
