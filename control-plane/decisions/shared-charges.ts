import { RATE_LIMIT_ROUNDS_MAX } from '../../core/limits.ts';
import type { BatchAnswer, BatchRequest, ChargeAnswer, DecisionAnswer, DecisionAsk } from '../../core/wire.ts';
import type { BucketState } from '../rate-limit/buckets.ts';
import { addressBucket, MANAGEMENT_RATE, type Rate } from '../rate-limit/classes.ts';
import type { BucketOperation, RatedState, SharedBuckets } from '../rate-limit/operations.ts';
import { type Problem, problem } from './ask.ts';
import { UNAUTHENTICATED } from './gateway-ask.ts';
import type { Charged } from './items.ts';

/** What a message is charged and decided with. */
export interface SharedChargeMeans {
  readonly shared: SharedBuckets;
  /** Whether a hash is that of a token which was found: for asks, one of the kind that their path takes. */
  readonly known: (tokenHash: string, path: DecisionAsk['path'] | null) => boolean;
  /** Hands a charged ask to its lane. */
  readonly submit: (
    ask: DecisionAsk,
    charged: Charged & { readonly bucket?: BucketState },
    reply: (answer: DecisionAnswer) => void,
  ) => void;
  readonly rateLimited: (rateClass: 'verify' | 'management') => void;
}

/** An ask that was answered, and what was taken for it. */
interface Settled {
  readonly answer: DecisionAnswer;
  readonly held: RatedState | null;
}

const AWAY = problem('not_decidable', 'The rate limits cannot be read, so nothing was decided.', null, null, 1);
const CHANGING = problem('not_decidable', 'The limits of this credential are just being changed.', null, null, 1);

/**
 * Answers the asks and charges of a message where buckets are shared: charges all in one round trip, then decides.
 *
 * The rate that a bucket had last is taken as its rate; a lane that knows another has nothing decided and the ask
 * charged anew by that one ({@link Owings}). What was taken for an answer that tells no rate is given back, so an ask
 * costs one request however often it is sent between the processes. Where the buckets cannot be asked: 503
 * `not_decidable`, and nothing is decided. Never throws.
 */
export async function answerCharged(
  means: SharedChargeMeans,
  { asks, charges }: BatchRequest,
): Promise<Pick<BatchAnswer, 'asks' | 'charges'>> {
  const firsts = [
    ...asks.map((ask) => firstOf(means, ask)),
    ...charges.map(({ token_hash: hash, address }) =>
      hash !== null && means.known(hash, null) ? ofToken(hash) : ofAddress(address),
    ),
  ];
  const states = await performed(
    means,
    firsts.filter((one) => one !== null),
  );
  if (states === null) return { asks: asks.map(() => AWAY), charges: charges.map(() => null) };
  let next = 0;
  const found = firsts.map((one) => (one === null ? null : (states[next++] ?? null)));
  const owings = new Owings(means.shared);
  const settled = await Promise.all(
    asks.map((ask, i) =>
      firsts[i]?.kind === 'take'
        ? { answer: UNAUTHENTICATED, held: null }
        : decided(means, owings, ask, found[i] ?? null),
    ),
  );
  return afterwards(means, { asks, charges }, settled, found);
}

/** A request whose mapping the proxy has to be told comes back, and is charged then: nothing is taken before. */
function firstOf(means: SharedChargeMeans, ask: DecisionAsk): BucketOperation | null {
  if (!means.known(ask.token_hash, ask.path)) return ofAddress(ask.address);
  return ask.path === 'gateway' && ask.tool === null ? null : ofToken(ask.token_hash);
}

/** Gives back what was taken for nothing, and charges the addresses of those who turned out to have no valid token. */
async function afterwards(
  means: SharedChargeMeans,
  { asks, charges }: Pick<BatchRequest, 'asks' | 'charges'>,
  settled: readonly Settled[],
  found: readonly (RatedState | null)[],
): Promise<Pick<BatchAnswer, 'asks' | 'charges'>> {
  const operations: BucketOperation[] = [];
  const addresses = new Map<number, number>();
  settled.forEach(({ answer, held }, i) => {
    const { token_hash: key, address } = asks[i]!;
    if (held?.state.allowed === true && tellsNoRate(answer)) operations.push({ kind: 'give', key });
    if (isUnauthenticated(answer) && means.known(key, asks[i]!.path)) {
      addresses.set(i, operations.push(ofAddress(address)) - 1);
    }
  });
  charges.forEach(({ address }, j) => {
    if (found[asks.length + j] === null) addresses.set(asks.length + j, operations.push(ofAddress(address)) - 1);
  });
  const more = await performed(means, operations);
  const stateOf = (i: number): BucketState | undefined => {
    const at = addresses.get(i);
    return (at === undefined ? found[i] : more?.[at])?.state;
  };
  return {
    asks: settled.map(({ answer }, i) => {
      if (answer.answer !== 'problem') return answer;
      if (isUnauthenticated(answer)) return byAddress(means, answer, stateOf(i));
      if (answer.error === 'rate_limited') means.rateLimited('verify');
      return answer;
    }),
    charges: charges.map((_, j) => chargeAnswerOf(stateOf(asks.length + j))),
  };
}

async function performed(
  { shared }: SharedChargeMeans,
  operations: readonly BucketOperation[],
): Promise<(RatedState | null)[] | null> {
  if (operations.length === 0) return [];
  return shared.perform(operations).catch(() => null);
}

function decided(
  { submit }: SharedChargeMeans,
  owings: Owings,
  ask: DecisionAsk,
  first: RatedState | null,
): Promise<Settled> {
  return new Promise((resolve) => {
    let held = first;
    let rounds = 0;
    const again = (): void => {
      const taken = held === null ? {} : { bucket: held.state, chargedBy: held.rate };
      submit(ask, { ...taken, charge }, (answer) => resolve({ answer, held }));
    };
    const charge = (rate: Rate): void => {
      rounds += 1;
      if (rounds > RATE_LIMIT_ROUNDS_MAX) {
        resolve({ answer: CHANGING, held });
        return;
      }
      owings.add({ key: ask.token_hash, rate, taken: held?.state.allowed === true }).then((now) => {
        held = now;
        if (now === null) resolve({ answer: AWAY, held });
        else again();
      });
    };
    again();
  });
}

interface Owing {
  readonly key: string;
  readonly rate: Rate;
  /** Whether a request was taken for it, by another rate. */
  readonly taken: boolean;
}

/**
 * Charges the asks that a lane found to be owed, all those of one batch together: first what was taken by another
 * rate is given back for all of them, then each is charged by the right one, as if it had been known.
 */
class Owings {
  readonly #shared: SharedBuckets;
  #waiting: { readonly owing: Owing; readonly settle: (state: RatedState | null) => void }[] = [];

  constructor(shared: SharedBuckets) {
    this.#shared = shared;
  }

  /** The bucket after the charge, or null where it could not be made. */
  add(owing: Owing): Promise<RatedState | null> {
    return new Promise((settle) => {
      // A lane answers all of a batch in one go.
      if (this.#waiting.push({ owing, settle }) === 1) queueMicrotask(() => this.#flush());
    });
  }

  #flush(): void {
    const waiting = this.#waiting;
    this.#waiting = [];
    const back = waiting
      .filter(({ owing }) => owing.taken)
      .map(({ owing: { key } }) => ({ kind: 'give', key }) as const);
    const takes = waiting.map(({ owing: { key, rate } }) => ({ kind: 'take', key, rate }) as const);
    this.#shared.perform([...back, ...takes]).then(
      (states) => waiting.forEach(({ settle }, i) => void settle(states[back.length + i] ?? null)),
      () => waiting.forEach(({ settle }) => void settle(null)),
    );
  }
}

function ofToken(key: string): BucketOperation {
  return { kind: 'known', key };
}

function ofAddress(address: string): BucketOperation {
  return { kind: 'take', key: addressBucket(address), rate: MANAGEMENT_RATE };
}

function tellsNoRate(answer: DecisionAnswer): boolean {
  return answer.answer === 'mapping' || answer.rate === null;
}

function isUnauthenticated(answer: DecisionAnswer): boolean {
  return answer.answer === 'problem' && answer.error === 'unauthenticated';
}

function byAddress(means: SharedChargeMeans, answer: Problem, state: BucketState | undefined): DecisionAnswer {
  return state === undefined ? AWAY : addressLimited(answer, state, means.rateLimited);
}

/** The answer to whoever shows no valid token, who is limited by address. */
export function addressLimited(
  answer: Problem,
  { allowed, limit, remaining, resetSeconds, retryAfterSeconds }: BucketState,
  rateLimited: (rateClass: 'management') => void,
): DecisionAnswer {
  const rate: [number, number, number] = [limit, remaining, resetSeconds];
  if (allowed) return { ...answer, rate };
  rateLimited('management');
  const detail = 'Too many requests without a valid token from this address.';
  return { ...answer, error: 'rate_limited', detail, retry_after_s: retryAfterSeconds, rate };
}

function chargeAnswerOf(state: BucketState | undefined): ChargeAnswer | null {
  if (state === undefined) return null;
  const { allowed, limit, remaining, resetSeconds, retryAfterSeconds } = state;
  return { rate: [limit, remaining, resetSeconds], retry_after_s: allowed ? null : retryAfterSeconds };
}
