import { isIP, connect as netConnect, type Socket } from 'node:net';
import { connect as tlsConnect } from 'node:tls';
import { type Resolve, resolverFor } from './name-resolver.ts';
import { isAllowedAddress } from './target-address.ts';

/** The connection to a target was never established, so nothing reached it. */
export class TargetUnreachable extends Error {
  override readonly name = 'TargetUnreachable';
}

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
  const resolve = options.resolve ?? resolverFor(options.allowPrivate);
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
  const until = performance.now() + options.connectTimeoutMs;
  const addresses = isIP(host) ? [{ address: host }] : await inTime(resolve(host), options.connectTimeoutMs);
  if (addresses.length === 0) throw unreachable('its name has no address');
  for (const { address } of addresses) {
    if (!isAllowedAddress(address, options.allowPrivate)) {
      throw unreachable('its address is in a range that targets may not be in');
    }
  }
  const secure = to.protocol === 'https:';
  const port = Number(to.port || (secure ? 443 : 80));
  const socket = await firstConnected(addresses, port, until);
  if (socket.remoteAddress === undefined || !isAllowedAddress(socket.remoteAddress, options.allowPrivate)) {
    socket.destroy();
    throw unreachable('its peer is in a range that targets may not be in');
  }
  return secure ? await encrypted(socket, to.servername || host, options.connectTimeoutMs) : socket;
}

/** Tries the addresses in their order, each with its share of the time that is left. */
async function firstConnected(addresses: readonly { address: string }[], port: number, until: number): Promise<Socket> {
  let failure: unknown;
  for (const [at, { address }] of addresses.entries()) {
    const share = (until - performance.now()) / (addresses.length - at);
    if (share <= 0) break;
    try {
      return await connected(address, port, share);
    } catch (error) {
      failure = error;
    }
  }
  throw failure ?? unreachable('connecting took too long');
}

function inTime<T>(work: Promise<T>, timeoutMs: number): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(unreachable('its name was not resolved in time')), timeoutMs);
    work.then(resolve, reject).finally(() => clearTimeout(timer));
  });
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
