/** A bucket's refill in requests per second, and how many it holds. */
export interface Rate {
  readonly perSecond: number;
  readonly burst: number;
}

/** The management class (interface.md, Limits). */
export const MANAGEMENT_RATE: Rate = { perSecond: 10, burst: 20 };

/** The bucket of whoever shows no valid credential, on every way into the service (contract §8). */
export function addressBucket(address: string): string {
  return `address ${address}`;
}
