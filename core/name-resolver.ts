import { lookup as systemLookup } from 'node:dns';
import { Resolver } from 'node:dns/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { NAME_ADDRESSES_WAIT_MS, NAME_TIMEOUT_MS, NAME_TRIES, NAMES_AT_ONCE_MAX } from './limits.ts';

export interface ResolvedAddress {
  readonly address: string;
}

/** Finds the addresses of a name; rejects where there are none to be had. */
export type Resolve = (host: string) => Promise<readonly ResolvedAddress[]>;

/**
 * What resolves the names of targets and receivers.
 *
 * Where these may be private, names are the operator's own and mean what the system says (hosts file, search domains).
 * Where they are public, anybody may have chosen one: it is asked for by DNS alone ({@link publicResolver}), because
 * the system's look-ups take turns on two threads of the process, which a server that never answers would hold.
 */
export function resolverFor(allowPrivate: boolean): Resolve {
  return allowPrivate ? system : everywhere;
}

const system: Resolve = (host) =>
  new Promise((resolve, reject) => {
    systemLookup(host, { all: true, verbatim: true }, (error, addresses) => {
      if (error) reject(error);
      else resolve(addresses);
    });
  });

/** RFC 6761 §6.3: never asked of a server. */
const LOCAL_NAME = /(?:^|\.)localhost\.?$/i;
const LOOPBACK: readonly ResolvedAddress[] = [{ address: '127.0.0.1' }, { address: '::1' }];

/**
 * Resolves by DNS alone, without threads: IPv4 addresses first, those of IPv6 where they come in time.
 *
 * `servers`: `address:port`, those of the system where nothing is said. Equal names that wait are asked for once.
 * Source: RFC 8305 §3.
 */
export function publicResolver(servers?: readonly string[]): Resolve {
  const asked = new Map<string, Promise<readonly ResolvedAddress[]>>();
  return (host) => {
    if (LOCAL_NAME.test(host)) return Promise.resolve(LOOPBACK);
    const name = host.toLowerCase();
    const known = asked.get(name);
    if (known !== undefined) return known;
    if (asked.size >= NAMES_AT_ONCE_MAX) return Promise.reject(new Error('too many names are being resolved'));
    const found = addressesOf(name, servers).finally(() => asked.delete(name));
    asked.set(name, found);
    return found;
  };
}

const everywhere = publicResolver();

async function addressesOf(name: string, servers?: readonly string[]): Promise<readonly ResolvedAddress[]> {
  // One for each look-up: it reads the system's settings when it is made, and they may change.
  const resolver = new Resolver({ timeout: NAME_TIMEOUT_MS, tries: NAME_TRIES, maxTimeout: NAME_TIMEOUT_MS });
  if (servers !== undefined) resolver.setServers(servers);
  try {
    const six = resolver.resolve6(name).catch(() => []);
    const four = await resolver.resolve4(name).catch((error: unknown) => error);
    const found = Array.isArray(four) ? (four as string[]) : [];
    const late = found.length === 0 ? [] : [delay(NAME_ADDRESSES_WAIT_MS, [] as string[])];
    const all = [...found, ...(await Promise.race([six, ...late]))];
    if (all.length === 0) throw four instanceof Error ? four : new Error('the name has no address');
    return all.map((address) => ({ address }));
  } finally {
    resolver.cancel();
  }
}
