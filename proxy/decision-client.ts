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
  type EscalationWaitAnswer,
  escalationWaitAnswer,
  type GatewayAnswer,
  type GatewayAsk,
  type GatewayOutcome,
  INTERNAL_BATCH_PATH,
  INTERNAL_BODY_PATH,
  INTERNAL_WAIT_PATH,
  type RateCharge,
  type VerifyAnswer,
  type VerifyAsk,
} from '../core/wire.ts';
import { readBatchAnswer } from './batch-answer.ts';
import { type ControlAnswer, ControlLink, ControlPlaneAway } from './control-link.ts';

/** Whoever waits for a decision; one of the two is called, once, and must not throw. */
export interface AskWaiter<A extends DecisionAnswer = GatewayAnswer> {
  readonly resolve: (answer: A) => void;
  readonly reject: (error: ControlPlaneAway) => void;
}

interface WaitingAsk {
  readonly ask: DecisionAsk;
  readonly waiter: AskWaiter<never>;
  readonly startedMs: number;
  settled: boolean;
  /** The control planes that it did not reach. */
  tried: Set<Lane> | null;
}

interface WaitingOutcome {
  readonly outcome: GatewayOutcome;
  /** Of the token that was asked for: so that the outcome travels with asks, to the control plane that has its lock. */
  readonly tokenHash: string;
  attempts: number;
  readonly done: ((written: boolean) => void) | null;
}

interface WaitingCharge {
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

/**
 * Asks the control plane for decisions and tells it outcomes, many in one message.
 *
 * One message is in flight to a control plane; what arrives meanwhile is the next. An ask is sent to one control plane
 * (the token picks it, so that one instance's rate bucket is in one place) and never twice: where it is not known
 * whether it arrived, it failed. Outcomes are told again until they are written. Source: design §2.4.
 */
export class DecisionClient {
  readonly #lanes: Lane[];
  readonly #options: DecisionClientOptions;

  constructor(options: DecisionClientOptions) {
    this.#options = options;
    this.#lanes = options.controlPlanes.map((address) => new Lane(address, options, this));
  }

  /** Asks; there is an answer, or a {@link ControlPlaneAway} when none comes in time. */
  ask(ask: GatewayAsk, waiter: AskWaiter): void {
    this.route({ ask, waiter, startedMs: performance.now(), settled: false, tried: null });
  }

  /** Asks for a verification, as {@link ask}. */
  verify(ask: VerifyAsk, waiter: AskWaiter<VerifyAnswer>): void {
    this.route({ ask, waiter, startedMs: performance.now(), settled: false, tried: null });
  }

  /** Sends an ask to the best control plane that it was not sent to yet. */
  route(waiting: WaitingAsk): void {
    const lane = this.#pick(waiting.ask.token_hash, waiting.tried ?? NONE);
    if (lane === null) this.refuse(waiting, new ControlPlaneAway('no control plane can be reached', false));
    else lane.ask(waiting);
  }

  /** Gives up on an ask. */
  refuse(waiting: WaitingAsk, error: ControlPlaneAway): void {
    waiting.settled = true;
    this.#options.observeSeconds(waiting.ask.path, (performance.now() - waiting.startedMs) / 1000);
    waiting.waiter.reject(error);
  }

  /** Tells an outcome at once; resolves true when it is committed, false when it was given up on. */
  tell(outcome: GatewayOutcome, tokenHash: string): Promise<boolean> {
    return new Promise((done) => this.routeOutcome({ outcome, tokenHash, attempts: 0, done }, true));
  }

  /** Tells an outcome with the next ask, or soon. */
  tellLater(outcome: GatewayOutcome, tokenHash: string): void {
    this.routeOutcome({ outcome, tokenHash, attempts: 0, done: null }, false);
  }

  /** Any control plane writes outcomes: the one that the token picks among those that answer. */
  routeOutcome(waiting: WaitingOutcome, now: boolean): void {
    (this.#pick(waiting.tokenHash, NONE) ?? this.#lanes[0]!).tell(waiting, now);
  }

  /** Takes one request from a bucket; null when no control plane answers. */
  charge(charge: RateCharge): Promise<ChargeAnswer | null> {
    const lane = this.#pick(charge.token_hash ?? '', NONE) ?? this.#lanes[0]!;
    return new Promise((resolve) => {
      // The answer that waits for this is a refusal already: it goes without, rather than late.
      const timer = setTimeout(() => resolve(null), this.#options.timeoutMs);
      const done = (answer: ChargeAnswer | null): void => {
        clearTimeout(timer);
        resolve(answer);
      };
      lane.charge({ charge, done });
    });
  }

  /** Waits until an escalation is answered, at most `timeoutMs`; null when it is not known. */
  async wait(
    accountId: string,
    escalationId: string,
    timeoutMs: number,
    signal: AbortSignal,
  ): Promise<EscalationWaitAnswer | null> {
    const message = { account_id: accountId, escalation_id: escalationId, timeout_ms: timeoutMs };
    const answer = await this.#post(INTERNAL_WAIT_PATH, JSON.stringify(message), timeoutMs + 5_000, signal);
    if (answer.status === 404) return null;
    if (answer.status !== 200) throw new ControlPlaneAway(`the control plane answered ${answer.status}`, true);
    return escalationWaitAnswer.parse(JSON.parse(answer.text));
  }

  /** Hands over the body that an approver's card shows. */
  async storeBody(accountId: string, escalationId: string, body: Buffer): Promise<void> {
    const message = { account_id: accountId, escalation_id: escalationId, body: body.toString('base64') };
    await this.#post(INTERNAL_BODY_PATH, JSON.stringify(message), 2_000);
  }

  /** Whether any control plane answers. */
  async alive(timeoutMs: number): Promise<boolean> {
    const answers = await Promise.all(this.#lanes.map((lane) => lane.link.alive(timeoutMs)));
    return answers.includes(true);
  }

  /** How many control planes answered last. */
  get up(): number {
    return this.#lanes.filter((lane) => !lane.away).length;
  }

  /** Tells what is still to be told, bounded by `timeoutMs`, and closes the connections. */
  async close(timeoutMs: number): Promise<void> {
    const until = performance.now() + timeoutMs;
    while (this.#lanes.some((lane) => lane.busy) && performance.now() < until) {
      for (const lane of this.#lanes) lane.hurry();
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    await Promise.all(this.#lanes.map((lane) => lane.close()));
  }

  async #post(path: string, body: string, timeoutMs: number, signal?: AbortSignal) {
    for (const lane of this.#lanes) {
      try {
        return await lane.link.post(path, body, timeoutMs, signal);
      } catch (error) {
        if (!(error instanceof ControlPlaneAway) || error.sent) throw error;
      }
    }
    throw new ControlPlaneAway('no control plane can be reached', false);
  }

  /** Rendezvous hashing: every proxy sends a token to the same control plane while that one is there. */
  #pick(tokenHash: string, tried: ReadonlySet<Lane>): Lane | null {
    if (this.#lanes.length === 1) return tried.size === 0 ? this.#lanes[0]! : null;
    const key = wordOf(tokenHash);
    let best: Lane | null = null;
    let bestScore = -1;
    for (const lane of this.#lanes) {
      if (tried.has(lane)) continue;
      const score = mixed(key ^ lane.salt) + (lane.away ? 0 : 2 ** 32);
      if (score <= bestScore) continue;
      best = lane;
      bestScore = score;
    }
    return best;
  }
}

const NONE: ReadonlySet<Lane> = new Set();

/** The first 32 bits of a hash in hex; 0 where there is none. */
function wordOf(hex: string): number {
  return Number.parseInt(hex.slice(0, 8), 16) | 0;
}

/** 32 bits of which each depends on all that went in (MurmurHash3's finaliser): what goes in is random already. */
function mixed(word: number): number {
  let mix = Math.imul(word ^ (word >>> 16), 0x85ebca6b);
  mix = Math.imul(mix ^ (mix >>> 13), 0xc2b2ae35);
  return (mix ^ (mix >>> 16)) >>> 0;
}

/** The queue to one control plane. */
class Lane {
  readonly link: ControlLink;
  /** Sets this control plane apart from others for the same token, alike in every proxy. */
  readonly salt: number;
  away = false;
  readonly #client: DecisionClient;
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

  constructor(address: string, options: DecisionClientOptions, client: DecisionClient) {
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
    this.#flush();
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
