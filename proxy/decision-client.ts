import {
  type ChargeAnswer,
  type EscalationWaitAnswer,
  escalationWaitAnswer,
  type GatewayAsk,
  type GatewayOutcome,
  INTERNAL_BODY_PATH,
  INTERNAL_WAIT_PATH,
  type RateCharge,
  type VerifyAnswer,
  type VerifyAsk,
} from '../core/wire.ts';
import { ControlPlaneAway } from './control-link.ts';
import {
  type AskWaiter,
  type DecisionClientOptions,
  DecisionLane,
  type WaitingAsk,
  type WaitingOutcome,
  wordOf,
} from './decision-lane.ts';

/**
 * Asks the control plane for decisions and tells it outcomes, many in one message.
 *
 * One message is in flight to a control plane; what arrives meanwhile is the next. An ask is sent to one control plane
 * (the token picks it, so that one instance's rate bucket is in one place) and never twice: where it is not known
 * whether it arrived, it failed. Outcomes are told again until they are written. Source: design §2.4.
 */
export class DecisionClient {
  readonly #lanes: DecisionLane[];
  readonly #options: DecisionClientOptions;

  constructor(options: DecisionClientOptions) {
    this.#options = options;
    this.#lanes = options.controlPlanes.map((address) => new DecisionLane(address, options, this));
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
  #pick(tokenHash: string, tried: ReadonlySet<DecisionLane>): DecisionLane | null {
    if (this.#lanes.length === 1) return tried.size === 0 ? this.#lanes[0]! : null;
    const key = wordOf(tokenHash);
    let best: DecisionLane | null = null;
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

const NONE: ReadonlySet<DecisionLane> = new Set();

/** 32 bits of which each depends on all that went in (MurmurHash3's finaliser): what goes in is random already. */
function mixed(word: number): number {
  let mix = Math.imul(word ^ (word >>> 16), 0x85ebca6b);
  mix = Math.imul(mix ^ (mix >>> 13), 0xc2b2ae35);
  return (mix ^ (mix >>> 16)) >>> 0;
}
