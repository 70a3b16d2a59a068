import { isUnavailable } from '../db/client.ts';
import type { Buckets } from '../rate-limit/operations.ts';
import type { DecisionMetrics, FactsSource } from './account-facts.ts';
import { type AskContext, type Owed, problem, type VerificationMeans } from './ask.ts';
import type { CarriedFacts } from './carried-facts.ts';
import type { BatchFacts } from './fact-rows.ts';
import type { FactReader } from './facts.ts';
import { answerGatewayAsk, UNAUTHENTICATED } from './gateway-ask.ts';
import type { AskItem, HotItem, VerifyItem } from './items.ts';
import { ConnectionLost, type LaneConnection } from './lane-connection.ts';
import { applyOutcome } from './outcomes.ts';
import { Recording, type Sighting } from './record.ts';
import { answerVerifyAsk, UNKNOWN_KEY } from './verify-ask.ts';
import type { VersionCache } from './versions.ts';

/** What a lane runs its batches with. */
export interface BatchLane {
  readonly connection: LaneConnection;
  readonly reader: FactReader;
  readonly carried: CarriedFacts;
}

/** What batches are run with; one object a control plane. */
export interface BatchDependencies {
  readonly verifications: VerificationMeans;
  readonly versions: VersionCache;
  readonly buckets: Buckets;
  readonly metrics: DecisionMetrics;
  /** Told of denied requests that nothing could be read from, once they are recorded. */
  readonly sighted?: (sightings: readonly Sighting[]) => void;
  readonly logError: (error: unknown, message: string) => void;
}

/** What became of an item: told when it is committed; `sign` is for when its batch is on the way to the database. */
interface Reply {
  readonly tell: () => void;
  readonly sign?: () => void;
}

const NOT_COMPLETED = 'The decision could not be completed.';

/**
 * A batch that was decided on carried facts and sent, and may not have been executed yet.
 *
 * `landed` never rejects: `committed`, and the items are answered; `refused`, nothing was written and the items must be
 * run again on facts that are read; `failed`, and the items were refused.
 */
export interface Flight {
  readonly items: readonly HotItem[];
  readonly landed: Promise<'committed' | 'refused' | 'failed'>;
}

/**
 * Decides a batch on carried facts and sends it as a transaction of its own, or returns null where facts are missing.
 *
 * The facts are carried on at once, as the batch leaves them: the next one may be decided before this one is executed,
 * for the database executes them in order and refuses what was decided on effects that did not come about
 * (docs/design/0008-facts-carried-over.md).
 */
export function sendAhead(lane: BatchLane, dependencies: BatchDependencies, items: readonly HotItem[]): Flight | null {
  const facts = lane.carried.take(items, dependencies.versions);
  if (facts === null) return null;
  const started = performance.now();
  const recording = new Recording([...facts.values()].map(({ head }) => head));
  let replies: Reply[];
  let sent: Promise<unknown[]>;
  try {
    replies = decideAll(dependencies, recording, facts, items);
    sent = lane.connection.whole(recording.single, (sql) => recording.send(sql));
    for (const reply of replies) reply.sign?.();
  } catch (error) {
    dependencies.logError(error, 'a batch could not be decided');
    return { items, landed: Promise.resolve('refused') };
  }
  if (!recording.changesFacts) lane.carried.keep(facts);
  const landed = sent.then(
    (results) => {
      dependencies.metrics.batch(items.length, (performance.now() - started) / 1000);
      committed(lane, dependencies, { recording, source: 'carried' }, results);
      for (const reply of replies) reply.tell();
      return 'committed' as const;
    },
    (error: unknown) => {
      for (const accountId of facts.keys()) lane.carried.drop(accountId);
      if (error instanceof ConnectionLost || isUnavailable(error)) {
        dependencies.logError(error, 'a batch of decisions failed');
        for (const item of items) refuse(item, NOT_COMPLETED);
        return 'failed' as const;
      }
      lane.carried.contended(facts);
      dependencies.metrics.facts('changed');
      return 'refused' as const;
    },
  );
  return { items, landed };
}

/**
 * Runs a batch alone in one transaction on facts read under the locks, and answers its items after the commit.
 *
 * Where the database refuses the transaction, each account is tried alone, so that one account's failure is only its
 * own. Where the connection is lost, nothing is tried again: whether the commit happened is not known.
 */
export async function runOnRead(
  lane: BatchLane,
  dependencies: BatchDependencies,
  items: readonly HotItem[],
): Promise<void> {
  try {
    const started = performance.now();
    const replies = await transactOnRead(lane, dependencies, items);
    dependencies.metrics.batch(items.length, (performance.now() - started) / 1000);
    for (const reply of replies) reply.tell();
  } catch (error) {
    dependencies.logError(error, 'a batch of decisions failed');
    const alone = error instanceof ConnectionLost || isUnavailable(error) ? [] : byAccount(items);
    if (alone.length < 2) {
      for (const item of items) refuse(item, NOT_COMPLETED);
      return;
    }
    for (const group of alone) await runOnRead(lane, dependencies, group);
  }
}

/** Answers an item that will not be run: nothing was decided or written. */
export function refuse(item: HotItem, detail: string): void {
  if (item.kind === 'outcome') item.answer(false);
  else if (item.kind === 'booking') item.refuse(detail);
  else item.answer(problem('not_decidable', detail, null, null, 1));
}

async function transactOnRead(
  lane: BatchLane,
  dependencies: BatchDependencies,
  items: readonly HotItem[],
): Promise<Reply[]> {
  const { connection, reader, carried } = lane;
  const generation = connection.generation;
  try {
    const read = await reader.read(connection.sql, items);
    connection.assertSame(generation);
    const facts = carried.extend(read);
    for (const one of facts.values()) await dependencies.versions.load(connection.sql, one);
    connection.assertSame(generation);
    const recording = new Recording();
    const replies = decideAll(dependencies, recording, facts, items);
    const finished = connection.finish(generation, (sql) => recording.send(sql));
    for (const reply of replies) reply.sign?.();
    const sent = await finished;
    if (!recording.changesFacts) carried.keep(facts);
    committed(lane, dependencies, { recording, source: 'read' }, sent);
    return replies;
  } catch (error) {
    await connection.rollback(generation);
    throw error;
  }
}

/** Decides in order, each seeing the effects of the one before; the replies are for after the commit. */
function decideAll(
  dependencies: BatchDependencies,
  recording: Recording,
  batch: BatchFacts,
  items: readonly HotItem[],
): Reply[] {
  const contexts = new Map<string, AskContext>();
  const monotonicMs = performance.now();
  for (const [accountId, facts] of batch) contexts.set(accountId, { ...dependencies, facts, recording, monotonicMs });
  return items.map((item) => replyTo(contexts.get(item.accountId), item));
}

function replyTo(context: AskContext | undefined, item: HotItem): Reply {
  switch (item.kind) {
    case 'outcome': {
      // An account that is not there has nothing to book on.
      const written = context === undefined || applyOutcome(context, item.outcome);
      return { tell: () => item.answer(written) };
    }
    case 'ask': {
      const answer = context === undefined ? UNAUTHENTICATED : answerGatewayAsk(context, item);
      return { tell: answer.answer === 'owed' ? () => owe(item, answer) : () => item.answer(answer) };
    }
    case 'verify': {
      const answer = context === undefined ? UNKNOWN_KEY : answerVerifyAsk(context, item);
      if (answer.answer === 'owed') return { tell: () => owe(item, answer) };
      const tell = (): void => item.answer(answer);
      return answer.answer === 'result' ? { tell, sign: answer.sign } : { tell };
    }
    case 'booking': {
      if (context === undefined) return { tell: () => item.refuse('There is no such account.') };
      return { tell: item.apply(context, context.facts.authorisations.get(item.tokenHash)) };
    }
    default:
      throw new Error(`an item that is not known: ${String(item satisfies never)}`);
  }
}

/** Nothing was decided: the ask comes back when it is charged. */
function owe(item: AskItem | VerifyItem, { rate }: Owed): void {
  if (item.charge === undefined) refuse(item, 'The rate of this credential could not be counted.');
  else item.charge(rate);
}

interface Committed {
  readonly recording: Recording;
  readonly source: FactsSource;
}

function committed(
  { carried }: BatchLane,
  { metrics, sighted }: BatchDependencies,
  { recording, source }: Committed,
  sent: readonly unknown[],
): void {
  const [first] = sent as readonly (readonly { now_ms?: number }[])[];
  const nowMs = first?.[0]?.now_ms;
  if (nowMs !== undefined) carried.tick(nowMs);
  metrics.facts(source);
  for (const kind of recording.kinds) metrics.evidence(kind, 1);
  for (const [path, decision, code] of recording.verdicts) metrics.decision(path, decision, code);
  for (const outcome of recording.outcomes) metrics.outcome(outcome);
  if (recording.sightings.length > 0) sighted?.(recording.sightings);
}

function byAccount(items: readonly HotItem[]): HotItem[][] {
  const groups = new Map<string, HotItem[]>();
  for (const item of items) {
    const group = groups.get(item.accountId);
    if (group === undefined) groups.set(item.accountId, [item]);
    else group.push(item);
  }
  return [...groups.values()];
}
