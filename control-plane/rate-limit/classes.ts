import { networkOf } from './network.ts';

/** A bucket's refill in requests per second, and how many it holds. */
export interface Rate {
  readonly perSecond: number;
  readonly burst: number;
}

/** The management class (interface.md, Limits). */
export const MANAGEMENT_RATE: Rate = { perSecond: 10, burst: 20 };

/**
 * The bucket that a client's address has for `purpose`: an IPv6 address counts as its /64, since whoever has one of
 * that network has them all.
 */
export function clientBucket(purpose: string, address: string): string {
  return `${purpose} ${networkOf(address)}`;
}

/** The bucket of whoever shows no valid credential, on every way into the service (contract §8). */
export function addressBucket(address: string): string {
  return clientBucket('address', address);
}
