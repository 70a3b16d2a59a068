import type { GatewayAnswer, GatewayAsk, GatewayOutcome, VerifyAsk } from '../../core/wire.ts';
import type { BucketState } from '../rate-limit/buckets.ts';
import type { Rate } from '../rate-limit/classes.ts';
import type { AuthorisationState } from './account-facts.ts';
import type { AskContext, DecidedVerification, Problem } from './ask.ts';
import type { LaneConnection } from './lane-connection.ts';

/** How an ask was charged where buckets are shared: by which rate, and what to do where another one holds. */
export interface Charged {
  readonly chargedBy?: Rate;
  readonly charge?: (rate: Rate) => void;
}

/** A gateway ask on its way to a decision. `deadlineMs` is monotonic: after it nothing may be decided any more. */
export interface AskItem extends Charged {
  readonly kind: 'ask';
  readonly accountId: string;
  readonly instanceId: string;
  readonly ask: GatewayAsk;
  readonly deadlineMs: number;
  readonly answer: (answer: GatewayAnswer) => void;
  /** What its token bucket said: an ask that is decided anew is not charged again. */
  bucket?: BucketState;
}

/** A verification on its way to a decision, by the account whose mandate it is; `key` asks for it. */
export interface VerifyItem extends Charged {
  readonly kind: 'verify';
  readonly accountId: string;
  readonly key: { readonly accountId: string; readonly keyId: string };
  readonly ask: VerifyAsk;
  readonly deadlineMs: number;
  readonly answer: (answer: DecidedVerification | Problem) => void;
  bucket?: BucketState;
}

/** The outcome of a forward on its way to the books; `answer` false: not written, to be told again. */
export interface OutcomeItem {
  readonly kind: 'outcome';
  readonly accountId: string;
  readonly outcome: GatewayOutcome;
  readonly answer: (written: boolean) => void;
}

/**
 * Something that is to become of an authorisation, by its consumption token: `apply` changes facts and records, at once
 * and possibly more than once (where a transaction is tried again); what it returns is called after the commit.
 */
export interface BookingItem {
  readonly kind: 'booking';
  readonly accountId: string;
  readonly tokenHash: string;
  readonly deadlineMs: number;
  readonly apply: (context: AskContext, authorisation: AuthorisationState | undefined) => () => void;
  readonly refuse: (detail: string) => void;
}

/** What is batched: many of these share a transaction. */
export type HotItem = AskItem | VerifyItem | OutcomeItem | BookingItem;

/** Runs alone in a transaction of its own, in its account's order; it answers for itself and never throws. */
export interface CommandItem {
  readonly kind: 'command';
  readonly accountId: string;
  readonly run: (connection: LaneConnection) => Promise<void>;
  readonly refuse: (reason: Error) => void;
}

export type LaneItem = HotItem | CommandItem;
