import type { GatewayAnswer } from '../../core/wire.ts';
import { isUnavailable } from '../db/client.ts';
import type { TokenBuckets } from '../rate-limit/buckets.ts';
import type { DecisionMetrics } from './batch-state.ts';
import type { FactReader } from './facts.ts';
import { answerGatewayAsk } from './gateway-ask.ts';
import type { HotItem } from './items.ts';
import { ConnectionLost, type LaneConnection } from './lane-connection.ts';
import { applyOutcome } from './outcomes.ts';
import { Recording } from './record.ts';
import type { VersionCache } from './versions.ts';

/** What batches are run with; one object a control plane, but `reader` is one a lane. */
export interface BatchDependencies {
  readonly versions: VersionCache;
  readonly buckets: TokenBuckets;
  readonly metrics: DecisionMetrics;
  readonly logError: (error: unknown, message: string) => void;
}

type Reply = () => void;

/**
 * Runs a batch in one transaction and answers its items after the commit.
 *
 * Where the database refuses the transaction, each account is tried alone, so that one account's failure is only its
 * own. Where the connection is lost, nothing is tried again: whether the commit happened is not known.
 */
export async function runBatch(
  connection: LaneConnection,
  reader: FactReader,
  dependencies: BatchDependencies,
  items: readonly HotItem[],
): Promise<void> {
  try {
    const replies = await transact(connection, reader, dependencies, items);
    for (const reply of replies) reply();
  } catch (error) {
    dependencies.logError(error, 'a batch of decisions failed');
    const alone = error instanceof ConnectionLost || isUnavailable(error) ? [] : byAccount(items);
    if (alone.length < 2) {
      for (const item of items) refuse(item, 'The decision could not be completed.');
      return;
    }
    for (const group of alone) await runBatch(connection, reader, dependencies, group);
  }
}

/** Answers an item that will not be run: nothing was decided or written. */
export function refuse(item: HotItem, detail: string): void {
  if (item.kind === 'outcome') item.answer(false);
  else item.answer(undecided(detail));
}

function undecided(detail: string): GatewayAnswer {
  return { answer: 'problem', error: 'not_decidable', detail, receipt_id: null, retry_after_s: 1, rate: null };
}

async function transact(
  connection: LaneConnection,
  reader: FactReader,
  dependencies: BatchDependencies,
  items: readonly HotItem[],
): Promise<Reply[]> {
  const started = performance.now();
  const generation = connection.generation;
  try {
    const state = await reader.read(connection.sql, items);
    connection.assertSame(generation);
    await dependencies.versions.load(connection.sql, state.instances.values(), state.tools.values());
    const recording = new Recording();
    const context = { ...dependencies, state, recording, monotonicMs: performance.now() };
    const replies: Reply[] = [];
    for (const item of items) {
      if (item.kind === 'outcome') {
        const written = applyOutcome(context, item.outcome);
        replies.push(() => item.answer(written));
      } else {
        const answer = answerGatewayAsk(context, item.accountId, item.instanceId, item.ask);
        replies.push(() => item.answer(answer));
      }
    }
    await connection.finish(generation, (sql) => recording.send(sql));
    dependencies.metrics.batch(items.length, (performance.now() - started) / 1000);
    for (const kind of recording.kinds) dependencies.metrics.evidence(kind, 1);
    return replies;
  } catch (error) {
    await connection.rollback(generation);
    throw error;
  }
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
