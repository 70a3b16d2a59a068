import { lookup as dnsLookup, type LookupAddress } from 'node:dns';
import { isIP, connect as netConnect, type Socket } from 'node:net';
import { connect as tlsConnect } from 'node:tls';
import ipaddr from 'ipaddr.js';

/** The connection to a target was never established, so nothing reached it. */
export class TargetUnreachable extends Error {
  override readonly name = 'TargetUnreachable';
}

/** Ranges that are refused whatever the settings say: where clouds answer questions about the machine. */
const METADATA = ['169.254.0.0/16', 'fd00:ec2::254/128', 'fe80::/10'].map((range) => ipaddr.parseCIDR(range));

/** Ranges (ipaddr.js names) that are the internet at large. */
const PUBLIC = new Set(['unicast']);

/**
 * Whether a resolved address may be connected to.
 *
 * IPv4 inside IPv6 (mapped, NAT64, 6to4) is judged as the IPv4 address it leads to. Source: contract §7, threats
 * "internal network".
 */
export function isAllowedAddress(address: string, allowPrivate: boolean): boolean {
  let parsed: ipaddr.IPv4 | ipaddr.IPv6;
  try {
    parsed = ipaddr.parse(address.split('%')[0]!);
  } catch {
    return false;
  }
  const inner = embedded(parsed);
  for (const one of inner === null ? [parsed] : [parsed, inner]) {
    if (METADATA.some(([range, bits]) => one.kind() === range.kind() && one.match(range, bits))) return false;
  }
  const judged = inner ?? parsed;
  const range = judged.range();
  if (range === 'multicast' || range === 'broadcast' || range === 'unspecified') return false;
  return allowPrivate || PUBLIC.has(range);
}

function embedded(address: ipaddr.IPv4 | ipaddr.IPv6): ipaddr.IPv4 | null {
  if (!(address instanceof ipaddr.IPv6)) return null;
  if (address.isIPv4MappedAddress()) return address.toIPv4Address();
  const range = address.range();
  const parts = address.toByteArray();
  if (range === 'rfc6052') return new ipaddr.IPv4(parts.slice(12));
  if (range === '6to4') return new ipaddr.IPv4(parts.slice(2, 6));
  return null;
}

/** What the resolver is: node:dns's `lookup` with `all`, or a test's. */
export type Resolve = (host: string) => Promise<readonly LookupAddress[]>;

const systemResolve: Resolve = (host) =>
  new Promise((resolve, reject) => {
    dnsLookup(host, { all: true, verbatim: true }, (error, addresses) => {
      if (error) reject(error);
      else resolve(addresses);
    });
  });

export interface GuardOptions {
  readonly allowPrivate: boolean;
  readonly connectTimeoutMs: number;
  readonly resolve?: Resolve;
}

interface ConnectTo {
  readonly hostname: string;
  readonly protocol: string;
  readonly port: string;
  readonly servername?: string | undefined;
}

type Connected = (error: Error | null, socket: Socket | null) => void;

/**
 * An undici connector that checks every address a name resolves to, connects to a checked one, and checks the peer.
 *
 * It runs for each new socket, so a name that changes its mind (DNS rebinding) is checked again. TLS verifies the
 * certificate for the name, not for the address.
 */
export function guardedConnector(options: GuardOptions): (to: ConnectTo, done: Connected) => void {
  const resolve = options.resolve ?? systemResolve;
  return (to, done) => {
    void open(to, options, resolve).then(
      (socket) => done(null, socket),
      (error: unknown) => {
        const reason = error instanceof TargetUnreachable ? error : unreachable('it could not be connected to', error);
        done(reason, null);
      },
    );
  };
}

async function open(to: ConnectTo, options: GuardOptions, resolve: Resolve): Promise<Socket> {
  const host = to.hostname.replace(/^\[|\]$/g, '');
  const addresses = isIP(host) ? [{ address: host, family: isIP(host) }] : await resolve(host);
  const [first] = addresses;
  if (first === undefined) throw unreachable('its name has no address');
  for (const { address } of addresses) {
    if (!isAllowedAddress(address, options.allowPrivate)) {
      throw unreachable('its address is in a range that targets may not be in');
    }
  }
  const secure = to.protocol === 'https:';
  const port = Number(to.port || (secure ? 443 : 80));
  const socket = await connected(first.address, port, options.connectTimeoutMs);
  if (socket.remoteAddress === undefined || !isAllowedAddress(socket.remoteAddress, options.allowPrivate)) {
    socket.destroy();
    throw unreachable('its peer is in a range that targets may not be in');
  }
  return secure ? await encrypted(socket, to.servername || host, options.connectTimeoutMs) : socket;
}

function connected(address: string, port: number, timeoutMs: number): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = netConnect({ host: address, port, noDelay: true, keepAlive: true });
    settle(socket, 'connect', timeoutMs, resolve, reject);
  });
}

function encrypted(socket: Socket, name: string, timeoutMs: number): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const servername = isIP(name) ? {} : { servername: name };
    const secure = tlsConnect({ socket, host: name, ALPNProtocols: ['http/1.1'], ...servername });
    settle(secure, 'secureConnect', timeoutMs, resolve, reject);
  });
}

function settle(
  socket: Socket,
  event: 'connect' | 'secureConnect',
  timeoutMs: number,
  resolve: (socket: Socket) => void,
  reject: (error: Error) => void,
): void {
  const timer = setTimeout(() => socket.destroy(unreachable('connecting took too long')), timeoutMs);
  const failed = (error: Error): void => {
    clearTimeout(timer);
    reject(error);
  };
  socket.once('error', failed);
  socket.once(event, () => {
    clearTimeout(timer);
    socket.off('error', failed);
    resolve(socket);
  });
}

function unreachable(why: string, cause?: unknown): TargetUnreachable {
  return new TargetUnreachable(`The target could not be reached: ${why}.`, { cause });
}
