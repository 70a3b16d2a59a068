import { TimestampFailure } from '../timestamps/authority.ts';
import type { Timestamps } from '../timestamps/timestamps.ts';
import { type Cosignatures, publisherOf } from '../witnesses/cosignatures.ts';
import { type Witness, WitnessFailure } from '../witnesses/witness-client.ts';
import type { Publisher } from './head-publisher.ts';

/** Timestamps as a publisher of tree heads. */
export function timestampPublisher(timestamps: Timestamps, timeoutMs: number): Publisher {
  return {
    name: 'tsa',
    longestMs: timeoutMs,
    publish: async (head) => {
      await timestamps.stamp(head);
    },
    // A timestamp that does not hold is the authority's fault with every account.
    failureOf: (error) => (error instanceof TimestampFailure ? { whole: true } : null),
  };
}

/** A witness as a publisher of tree heads. */
export function witnessPublisher(cosignatures: Cosignatures, witness: Witness): Publisher {
  return {
    name: publisherOf(witness.key.name),
    // Where it has seen another head than we know of, it is asked twice.
    longestMs: 2 * witness.timeoutMs,
    publish: (head) => cosignatures.cosign(witness, head),
    failureOf: (error) => {
      if (!(error instanceof WitnessFailure)) return null;
      return { whole: error.kind === 'away' || error.kind === 'invalid' };
    },
  };
}
