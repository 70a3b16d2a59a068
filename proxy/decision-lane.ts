import { hash } from 'node:crypto';
import {
  BATCH_AHEAD_MIN,
  BATCH_ASKS_MAX,
  BATCH_OTHERS_MAX,
  BATCH_STALLED_MS,
  BATCHES_AT_ONCE,
  BATCHES_IN_FLIGHT_MAX,
  LATE_ANSWER_MS,
  OUTCOME_ATTEMPTS_MAX,
  OUTCOME_LINGER_MS,
  OUTCOME_RETRY_MS,
  OUTCOMES_WAITING_MAX,
} from '../core/limits.ts';
import {
  type BatchAnswer,
  type ChargeAnswer,
  type DecisionAnswer,
  type DecisionAsk,
  type DecisionPath,
  type GatewayAnswer,
  type GatewayOutcome,
  INTERNAL_BATCH_PATH,
  type RateCharge,
} from '../core/wire.ts';
import { readBatchAnswer } from './batch-answer.ts';
import { type ControlAnswer, ControlLink, ControlPlaneAway } from './control-link.ts';

/** Whoever waits for a decision; one of the two is called, once, and must not throw. */
export interface AskWaiter<A extends DecisionAnswer = GatewayAnswer> {
  readonly resolve: (answer: A) => void;
  readonly reject: (error: ControlPlaneAway) => void;
}

export interface WaitingAsk {
  readonly ask: DecisionAsk;
  readonly waiter: AskWaiter<never>;
  readonly startedMs: number;
  settled: boolean;
  /** The control planes that it did not reach. */
  tried: Set<DecisionLane> | null;
}

export interface WaitingOutcome {
  readonly outcome: GatewayOutcome;
  /** Of the token that was asked for: so that the outcome travels with asks, to the control plane that has its lock. */
  readonly tokenHash: string;
  attempts: number;
  readonly done: ((written: boolean) => void) | null;
}

export interface WaitingCharge {
  readonly charge: RateCharge;
  readonly done: (answer: ChargeAnswer | null) => void;
}

/** One message under way. */
interface Batch {
  readonly startedMs: number;
  readonly asks: readonly WaitingAsk[];
  readonly outcomes: readonly WaitingOutcome[];
  readonly charges: readonly WaitingCharge[];
}

export interface DecisionClientOptions {
  readonly controlPlanes: readonly string[];
  readonly secret: string;
  readonly timeoutMs: number;
  readonly batchMax?: number;
  /** Told of every ask how long it took until it was answered or given up. */
  readonly observeSeconds: (path: DecisionPath, seconds: number) => void;
  readonly logWarning: (error: unknown, message: string) => void;
}

/** Who gives a lane its work, and takes back what it could not do. */
export interface LaneOwner {
  route(waiting: WaitingAsk): void;
  routeOutcome(waiting: WaitingOutcome, now: boolean): void;
  refuse(waiting: WaitingAsk, error: ControlPlaneAway): void;
}

/** The queue to one control plane: what waits, the messages under way, and what is told again. */
export class DecisionLane {
  readonly link: ControlLink;
  /** Sets this control plane apart from others for the same token, alike in every proxy. */
  readonly salt: number;
  away = false;
  readonly #client: LaneOwner;
  readonly #options: DecisionClientOptions;
  readonly #asksMax: number;
  #asks: WaitingAsk[] = [];
  #outcomes: WaitingOutcome[] = [];
  #charges: WaitingCharge[] = [];
  readonly #late = new Map<WaitingOutcome, NodeJS.Timeout>();
  readonly #inFlight = new Set<Batch>();
  #scheduled = false;
  #closed = false;
  #linger: NodeJS.Timeout | null = null;
  #watch: NodeJS.Timeout | null = null;

  constructor(address: string, options: DecisionClientOptions, client: LaneOwner) {
    this.link = new ControlLink(address, options.secret);
    this.salt = wordOf(hash('sha256', address, 'hex'));
    this.#options = options;
    this.#client = client;
    this.#asksMax = Math.min(BATCH_ASKS_MAX, options.batchMax ?? BATCH_ASKS_MAX);
  }

  get busy(): boolean {
    return this.#inFlight.size + this.#asks.length + this.#outcomes.length + this.#charges.length + this.#late.size > 0;
  }

  ask(waiting: WaitingAsk): void {
    this.#asks.push(waiting);
    this.#schedule();
  }

  charge(waiting: WaitingCharge): void {
    if (this.#charges.length >= OUTCOMES_WAITING_MAX) {
      waiting.done(null);
      return;
    }
    this.#charges.push(waiting);
    this.#schedule();
  }

  tell(waiting: WaitingOutcome, now: boolean): void {
    if (this.#outcomes.length + this.#late.size >= OUTCOMES_WAITING_MAX && this.#outcomes.length > 0) {
      // It stays counted, and the control plane's sweep will call it unknown.
      this.#outcomes.shift()?.done?.(false);
      this.#options.logWarning(null, 'too many outcomes are waiting; one was left to the sweep');
    }
    this.#outcomes.push(waiting);
    if (now) this.#schedule();
    else this.#linger ??= setTimeout(this.#lingered, OUTCOME_LINGER_MS);
  }

  hurry(): void {
    this.#schedule();
  }

  async close(): Promise<void> {
    if (this.#linger !== null) clearTimeout(this.#linger);
    if (this.#watch !== null) clearInterval(this.#watch);
    this.#closed = true;
    for (const [waiting, timer] of this.#late) {
      clearTimeout(timer);
      waiting.done?.(false);
    }
    await this.link.close();
  }

  readonly #lingered = (): void => {
    this.#linger = null;
    this.#flush();
  };

  #schedule(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    // After the poll phase: what other sockets brought in the same turn travels in the same message.
    setImmediate(this.#turn);
  }

  readonly #turn = (): void => {
    this.#scheduled = false;
    this.#flush();
  };

  #flush(): void {
    if (this.#asks.length + this.#outcomes.length + this.#charges.length === 0) return;
    if (this.#full) {
      this.#watchStalls();
      return;
    }
    const asks = take(this.#asks, this.#asksMax, (rest) => {
      this.#asks = rest;
    });
    const outcomes = take(this.#outcomes, this.#asksMax === 1 ? 1 : BATCH_OTHERS_MAX, (rest) => {
      this.#outcomes = rest;
    });
    const charges = take(this.#charges, BATCH_OTHERS_MAX, (rest) => {
      this.#charges = rest;
    });
    this.#send(asks, outcomes, charges);
  }

  /** Whether anybody waits for what is to be sent; outcomes alone travel with the next asks, or soon. */
  get #awaited(): boolean {
    if (this.#asks.length + this.#charges.length > 0 || this.#closed) return true;
    return this.#outcomes.length >= BATCH_OTHERS_MAX || this.#outcomes.some(({ done }) => done !== null);
  }

  /** Whether what waits must wait on: enough messages are under way, and none of them takes unusually long. */
  get #full(): boolean {
    const { size } = this.#inFlight;
    if (size === 0) return false;
    if (size >= BATCHES_IN_FLIGHT_MAX) return true;
    let youngest = 0;
    let asked = 0;
    for (const { startedMs, asks } of this.#inFlight) {
      youngest = Math.max(youngest, startedMs);
      asked += asks.length;
    }
    const waiting = this.#asks.length;
    if (size < BATCHES_AT_ONCE && waiting >= BATCH_AHEAD_MIN && waiting * 2 >= asked) return false;
    return performance.now() - youngest <= BATCH_STALLED_MS;
  }

  /** Looks after messages that take long; runs only while something is in flight or waits. */
  #watchStalls(): void {
    this.#watch ??= setInterval(() => {
      this.#giveUp(this.#asks);
      this.#asks = this.#asks.filter((waiting) => !waiting.settled);
      for (const batch of this.#inFlight) this.#giveUp(batch.asks);
      this.#flush();
      if (this.#inFlight.size + this.#asks.length > 0 || this.#watch === null) return;
      clearInterval(this.#watch);
      this.#watch = null;
    }, BATCH_STALLED_MS);
  }

  #giveUp(asks: readonly WaitingAsk[]): void {
    const before = performance.now() - this.#options.timeoutMs;
    for (const waiting of asks) {
      if (waiting.settled || waiting.startedMs > before) continue;
      this.#client.refuse(waiting, new ControlPlaneAway('the control plane did not decide in time', true));
    }
  }

  #send(asks: WaitingAsk[], outcomes: WaitingOutcome[], charges: WaitingCharge[]): void {
    const batch: Batch = { startedMs: performance.now(), asks, outcomes, charges };
    this.#inFlight.add(batch);
    this.#watchStalls();
    const message = JSON.stringify({
      asks: asks.map(({ ask }) => ask),
      outcomes: outcomes.map(({ outcome }) => outcome),
      charges: charges.map(({ charge }) => charge),
    });
    this.link.post(INTERNAL_BATCH_PATH, message, LATE_ANSWER_MS).then(
      (reply) => this.#received(batch, reply),
      (error: unknown) => this.#lost(batch, error),
    );
  }

  #received(batch: Batch, reply: ControlAnswer): void {
    let answer: BatchAnswer;
    try {
      answer = answerOf(batch, reply);
    } catch (error) {
      this.#lost(batch, error);
      return;
    }
    this.away = false;
    this.#inFlight.delete(batch);
    // The next message leaves first, so that the control plane works on it while what is answered here is forwarded.
    if (this.#awaited) this.#flush();
    else if (this.#outcomes.length > 0) this.#linger ??= setTimeout(this.#lingered, OUTCOME_LINGER_MS);
    this.#settle(batch, answer);
  }

  #lost(batch: Batch, error: unknown): void {
    this.#inFlight.delete(batch);
    this.#fail(batch, error);
    this.#flush();
  }

  #settle({ asks, outcomes, charges }: Batch, answer: BatchAnswer): void {
    const nowMs = performance.now();
    for (let i = 0; i < asks.length; i++) {
      const waiting = asks[i]!;
      if (!waiting.settled) {
        waiting.settled = true;
        this.#options.observeSeconds(waiting.ask.path, (nowMs - waiting.startedMs) / 1000);
        // What kind of answer it is was compared with what was asked.
        waiting.waiter.resolve(answer.asks[i] as never);
      } else {
        this.#undo(answer.asks[i]!, waiting.ask.token_hash);
      }
    }
    for (let i = 0; i < outcomes.length; i++) {
      if (answer.outcomes[i] === true) outcomes[i]!.done?.(true);
      else this.#again(outcomes[i]!);
    }
    for (let i = 0; i < charges.length; i++) charges[i]!.done(answer.charges[i] ?? null);
  }

  /** An allow that nobody waits for any more was not forwarded, and says so. */
  #undo(answer: DecisionAnswer, tokenHash: string): void {
    if (answer.answer !== 'allow') return;
    const { account_id, receipt_id } = answer;
    const outcome: GatewayOutcome = {
      account_id,
      receipt_id,
      outcome: 'released',
      cause: 'not_forwarded',
      target_status: null,
      answer: null,
    };
    this.tell({ outcome, tokenHash, attempts: 0, done: null }, true);
  }

  #fail({ asks, outcomes, charges }: Batch, error: unknown): void {
    this.away = true;
    this.#options.logWarning(error, 'a control plane did not answer');
    const sent = !(error instanceof ControlPlaneAway) || error.sent;
    for (const waiting of asks) {
      if (waiting.settled) continue;
      if (sent) {
        this.#client.refuse(waiting, new ControlPlaneAway('the control plane did not answer', true, error));
        continue;
      }
      waiting.tried ??= new Set();
      waiting.tried.add(this);
      this.#client.route(waiting);
    }
    for (const waiting of outcomes) this.#again(waiting);
    for (const waiting of charges) waiting.done(null);
  }

  #again(waiting: WaitingOutcome): void {
    waiting.attempts += 1;
    if (this.#closed || waiting.attempts >= OUTCOME_ATTEMPTS_MAX) {
      this.#options.logWarning(null, 'an outcome could not be written and is left to the sweep');
      waiting.done?.(false);
      return;
    }
    const pause = OUTCOME_RETRY_MS * Math.min(waiting.attempts, 10);
    const timer = setTimeout(() => {
      this.#late.delete(waiting);
      this.#client.routeOutcome(waiting, true);
    }, pause);
    this.#late.set(waiting, timer);
  }
}

function take<T>(queue: T[], count: number, keep: (rest: T[]) => void): T[] {
  if (queue.length <= count) {
    keep([]);
    return queue;
  }
  keep(queue.slice(count));
  return queue.slice(0, count);
}

function answerOf({ asks, outcomes, charges }: Batch, { status, text }: ControlAnswer): BatchAnswer {
  if (status !== 200) throw new ControlPlaneAway(`the control plane answered ${status}`, true);
  const answer = readBatchAnswer(text);
  const { asks: decided, outcomes: written, charges: charged } = answer;
  if (decided.length !== asks.length || written.length !== outcomes.length || charged.length !== charges.length) {
    throw new ControlPlaneAway('the control plane answered something else', true);
  }
  for (let i = 0; i < asks.length; i++) {
    if (!answersTo(decided[i]!, asks[i]!.ask)) throw new ControlPlaneAway('an answer to something else', true);
  }
  return answer;
}

function answersTo({ answer }: DecisionAnswer, { path }: DecisionAsk): boolean {
  return answer === 'problem' || (answer === 'result') === (path === 'verify');
}

/** The first 32 bits of a hash in hex; 0 where there is none. */
export function wordOf(hex: string): number {
  return Number.parseInt(hex.slice(0, 8), 16) | 0;
}
