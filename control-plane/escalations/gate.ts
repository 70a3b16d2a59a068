import type { EscalationStatus } from '../../core/decide.ts';
import { CARD_BODY_MAX_BYTES, ESCALATION_POLL_MS, ESCALATION_WAITERS_MAX } from '../../core/limits.ts';
import type { EscalationWaitAnswer } from '../../core/wire.ts';
import type { Custody } from '../custody/custody.ts';
import type { Sql } from '../db/client.ts';
import type { CommandRunner } from '../decisions/command.ts';
import type { EscalationGate } from '../decisions/internal-server.ts';
import { expire } from './store.ts';

export interface EscalationWaitsOptions {
  readonly sql: Sql;
  readonly commands: CommandRunner;
  readonly custody: Custody;
  readonly logError: (error: unknown, message: string) => void;
}

interface Escalation {
  readonly accountId: string;
  readonly id: string;
}

interface Standing extends Escalation {
  readonly status: EscalationStatus;
  readonly late: boolean;
  readonly open: boolean;
}

type Settle = (answer: EscalationWaitAnswer) => void;

const PENDING: EscalationWaitAnswer = { status: 'pending', escalation_token: null };

/**
 * Holds proxies' requests until a human has answered, and takes the bodies that the cards show.
 *
 * {@link changed} wakes those who wait here; answers given at another control plane are found by one query for all
 * waiters. An escalation past its time is written as expired by whoever sees it first. Source: contract §6, §7.
 */
export class EscalationWaits implements EscalationGate {
  readonly #options: EscalationWaitsOptions;
  readonly #waiting = new Map<string, { readonly of: Escalation; readonly settles: Set<Settle> }>();
  #waiters = 0;
  #timer: NodeJS.Timeout | null = null;
  #polling = false;

  constructor(options: EscalationWaitsOptions) {
    this.#options = options;
  }

  /** How an escalation stands once it is answered, or after `timeoutMs`, or when `signal` aborts; null: none such. */
  async wait(
    accountId: string,
    escalationId: string,
    timeoutMs: number,
    signal: AbortSignal,
  ): Promise<EscalationWaitAnswer | null> {
    const of = { accountId, id: escalationId };
    const [standing] = await this.#look([of]);
    if (standing === undefined) return null;
    const answer = await this.#answerOf(standing);
    const full = this.#waiters >= ESCALATION_WAITERS_MAX;
    if (answer.status !== 'pending' || timeoutMs <= 0 || signal.aborted || full) return answer;
    return await new Promise((resolve) => {
      const giveUp = (): void => settle(PENDING);
      const timer = setTimeout(giveUp, timeoutMs);
      const settle: Settle = (given) => {
        clearTimeout(timer);
        signal.removeEventListener('abort', giveUp);
        this.#leave(of, settle);
        resolve(given);
      };
      signal.addEventListener('abort', giveUp, { once: true });
      this.#join(of, settle);
    });
  }

  /** Keeps the body for the card: once, while it is pending, and only the very bytes that an approval would bind. */
  storeBody(accountId: string, escalationId: string, body: Buffer): Promise<boolean> {
    if (body.length > CARD_BODY_MAX_BYTES) return Promise.resolve(false);
    return this.#options.commands.command(accountId, async ({ sql, now }) => {
      const rows = await sql`
        update escalations set request_body = ${body}
        where account_id = ${accountId} and escalation_id = ${escalationId} and status = 'pending'
          and expires_at > ${now} and request_body is null
          and request ->> 'body_sha256' = encode(sha256(${body}), 'hex')
        returning 1 as stored`;
      return rows.length === 1;
    });
  }

  /** How many escalations of all accounts wait for an answer. */
  async countPending(): Promise<number> {
    const [row] = await this.#options.sql<{ pending: number }[]>`
      select count(*) as pending from escalations where status = 'pending' and expires_at > db_clock()`;
    return row?.pending ?? 0;
  }

  /** Told when an escalation was answered at this control plane. */
  changed(accountId: string, escalationId: string): void {
    const of = { accountId, id: escalationId };
    if (this.#waiting.has(keyOf(of))) void this.#settleAnswered([of]);
  }

  #join(of: Escalation, settle: Settle): void {
    const known = this.#waiting.get(keyOf(of));
    if (known === undefined) this.#waiting.set(keyOf(of), { of, settles: new Set([settle]) });
    else known.settles.add(settle);
    this.#waiters += 1;
    this.#timer ??= setInterval(() => void this.#poll(), ESCALATION_POLL_MS);
  }

  #leave(of: Escalation, settle: Settle): void {
    const known = this.#waiting.get(keyOf(of));
    if (known === undefined || !known.settles.delete(settle)) return;
    this.#waiters -= 1;
    if (known.settles.size === 0) this.#waiting.delete(keyOf(of));
    if (this.#waiters > 0 || this.#timer === null) return;
    clearInterval(this.#timer);
    this.#timer = null;
  }

  async #poll(): Promise<void> {
    if (this.#polling) return;
    this.#polling = true;
    await this.#settleAnswered([...this.#waiting.values()].map(({ of }) => of));
    this.#polling = false;
  }

  async #settleAnswered(escalations: readonly Escalation[]): Promise<void> {
    try {
      const standings = await this.#look(escalations);
      await Promise.all(
        standings.map(async (standing) => {
          const answer = await this.#answerOf(standing);
          if (answer.status === 'pending') return;
          const settles = this.#waiting.get(keyOf(standing))?.settles ?? [];
          for (const settle of [...settles]) settle(answer);
        }),
      );
    } catch (error) {
      // Those who wait go on waiting: the next look, or their own time, ends it.
      this.#options.logError(error, 'escalations could not be looked at');
    }
  }

  async #look(escalations: readonly Escalation[]): Promise<Standing[]> {
    if (escalations.length === 0) return [];
    const rows = await this.#options.sql<
      { account_id: string; escalation_id: string; status: EscalationStatus; late: boolean; open: boolean }[]
    >`
      select e.account_id, e.escalation_id, e.status, e.expires_at <= db_clock() as late,
        e.closes_at > db_clock() as open
      from unnest(${escalations.map((one) => one.accountId)}::text[], ${escalations.map((one) => one.id)}::text[])
        as asked (account_id, escalation_id)
      join escalations e on e.account_id = asked.account_id and e.escalation_id = asked.escalation_id`;
    return rows.map((row) => ({
      accountId: row.account_id,
      id: row.escalation_id,
      status: row.status,
      late: row.late,
      open: row.open,
    }));
  }

  async #answerOf(standing: Standing): Promise<EscalationWaitAnswer> {
    const { accountId, id, status, late, open } = standing;
    if (status === 'pending' && late) {
      const expired = await expire(this.#options.commands, accountId, [id]);
      if (expired === 1) return { status: 'expired', escalation_token: null };
      const [again] = await this.#look([standing]);
      // Still pending where the account's own time, which never goes back, is not past it yet.
      return again === undefined || again.status === 'pending' ? PENDING : await this.#answerOf(again);
    }
    const token = status === 'approved' && open ? this.#options.custody.escalationToken(id) : null;
    return { status, escalation_token: token };
  }
}

function keyOf({ accountId, id }: Escalation): string {
  return `${accountId} ${id}`;
}
