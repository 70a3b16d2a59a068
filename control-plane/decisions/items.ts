import type { GatewayAnswer, GatewayAsk, GatewayOutcome } from '../../core/wire.ts';
import type { BucketState } from '../rate-limit/buckets.ts';
import type { LaneConnection } from './lane-connection.ts';

/** An ask on its way to a decision. `deadlineMs` is monotonic: after it nothing may be decided any more. */
export interface AskItem {
  readonly kind: 'ask';
  readonly accountId: string;
  readonly instanceId: string;
  readonly ask: GatewayAsk;
  readonly deadlineMs: number;
  readonly answer: (answer: GatewayAnswer) => void;
  /** What its token bucket said: an ask that is decided anew is not charged again. */
  bucket?: BucketState;
}

/** The outcome of a forward on its way to the books; `answer` false: not written, to be told again. */
export interface OutcomeItem {
  readonly kind: 'outcome';
  readonly accountId: string;
  readonly outcome: GatewayOutcome;
  readonly answer: (written: boolean) => void;
}

/** What is batched: many of these share a transaction. */
export type HotItem = AskItem | OutcomeItem;

/** Runs alone in a transaction of its own, in its account's order; it answers for itself and never throws. */
export interface CommandItem {
  readonly kind: 'command';
  readonly accountId: string;
  readonly run: (connection: LaneConnection) => Promise<void>;
  readonly refuse: (reason: Error) => void;
}

export type LaneItem = HotItem | CommandItem;
