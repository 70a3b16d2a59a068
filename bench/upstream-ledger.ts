/** Every reference is a decimal number of this width: unique within a day, and exact in a double. */
export const REFERENCE_DIGITS = 15;

/** What the upstream answers on `GET /__ledger`. */
export interface UpstreamLedger {
  /** Requests that arrived, and how many different references they carried. */
  readonly requests: number;
  readonly unique: number;
}

/** Reads what arrived at the upstream since the last reset. */
export async function readLedger(upstreamUrl: string): Promise<UpstreamLedger> {
  const response = await fetch(new URL('/__ledger', upstreamUrl));
  return (await response.json()) as UpstreamLedger;
}

/** Sets the upstream's ledger to nothing. */
export async function resetLedger(upstreamUrl: string): Promise<void> {
  const response = await fetch(new URL('/__reset', upstreamUrl), { method: 'POST' });
  await response.arrayBuffer();
}
