import { parseArgs } from 'node:util';
import { connect } from '../control-plane/db/client.ts';
import type { DecisionMetrics } from '../control-plane/decisions/batch-state.ts';
import { Lanes } from '../control-plane/decisions/lanes.ts';
import { VersionCache } from '../control-plane/decisions/versions.ts';
import { TokenBuckets } from '../control-plane/rate-limit/buckets.ts';
import type { GatewayAnswer, GatewayAsk } from '../core/wire.ts';
import { cpuMicroseconds } from './cpu.ts';
import { benchDatabase, median, type SeededAccount, seedAccounts } from './seed.ts';

/**
 * Measures the control plane and PostgreSQL alone: decisions per second by batch size, without proxy or sockets.
 *
 * `node bench/decisions.ts [--batches 1,50,200] [--seconds 3] [--rounds 3] [--accounts 1] [--outcomes]`
 */
const { values } = parseArgs({
  options: {
    batches: { type: 'string', default: '1,50,200' },
    seconds: { type: 'string', default: '3' },
    rounds: { type: 'string', default: '3' },
    accounts: { type: 'string', default: '1' },
    outcomes: { type: 'boolean', default: false },
  },
});

const SILENT: DecisionMetrics = {
  decision() {},
  outcome() {},
  batch() {},
  laneDepth() {},
  evidence() {},
  rateLimited() {},
};

const EMPTY_SHA256 = 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855';

interface Load {
  readonly lanes: Lanes;
  readonly accounts: readonly SeededAccount[];
  readonly asks: readonly GatewayAsk[];
  readonly batch: number;
}

interface Receipt {
  readonly account_id: string;
  readonly receipt_id: string;
}

function askOf(account: SeededAccount): GatewayAsk {
  return {
    token_hash: account.tokenHash,
    address: '127.0.0.1',
    name: 'http.post:/payments',
    tool: { id: account.toolId, version: 1 },
    reading: { ok: true, amount_minor: 1, currency: 'EUR', counterparty: 'acme' },
    request: { method: 'POST', path: '/payments', query: '', body_sha256: EMPTY_SHA256 },
    bindable: true,
    idempotency_key_hash: null,
    escalation_token_hash: null,
    config_version: 1,
    budget_ms: 10_000,
  };
}

/** Submits one batch of asks (and the outcomes of the batch before) and waits for all answers. */
function wave(load: Load, from: number, settled: readonly Receipt[]): Promise<Receipt[]> {
  const { lanes, accounts, asks, batch } = load;
  const receipts: Receipt[] = [];
  return new Promise((resolve, reject) => {
    let waiting = batch + settled.length;
    const one = (): void => {
      waiting -= 1;
      if (waiting === 0) resolve(receipts);
    };
    const answer = (reply: GatewayAnswer): void => {
      if (reply.answer !== 'allow') {
        reject(new Error(`not allowed: ${JSON.stringify(reply)}`));
        return;
      }
      receipts.push({ account_id: reply.account_id, receipt_id: reply.receipt_id });
      one();
    };
    for (const receipt of settled) {
      const outcome = { ...receipt, outcome: 'booked', cause: 'answered', target_status: 200, answer: null } as const;
      lanes.submit({ kind: 'outcome', accountId: receipt.account_id, outcome, answer: one });
    }
    const deadlineMs = performance.now() + 10_000;
    for (let i = 0; i < batch; i++) {
      const at = (from + i) % accounts.length;
      const { accountId, instanceId } = accounts[at]!;
      lanes.submit({ kind: 'ask', accountId, instanceId, ask: asks[at]!, deadlineMs, answer });
    }
  });
}

async function rate(load: Load, seconds: number): Promise<number> {
  let done = 0;
  let receipts: Receipt[] = [];
  const started = performance.now();
  while (performance.now() < started + seconds * 1000) {
    const next = await wave(load, done, values.outcomes ? receipts : []);
    receipts = next;
    done += load.batch;
  }
  return done / ((performance.now() - started) / 1000);
}

async function main(): Promise<void> {
  const database = await benchDatabase();
  const sql = connect(database.ownerUrl, { applicationName: 'bench', max: 2 });
  const accounts = await seedAccounts(sql, Number(values.accounts), 'http://127.0.0.1:9');
  const batches = values.batches.split(',').map(Number);
  const results = new Map<number, number[]>(batches.map((batch) => [batch, []]));
  const dependencies = {
    databaseUrl: database.appUrl,
    versions: new VersionCache(() => ''),
    buckets: new TokenBuckets(),
    metrics: SILENT,
    logError: (error: unknown) => console.error(error),
  };
  for (let round = 0; round < Number(values.rounds); round++) {
    for (const batch of batches) {
      const lanes = new Lanes({ ...dependencies, batchMax: values.outcomes ? batch * 2 : batch });
      const load = { lanes, accounts, asks: accounts.map(askOf), batch };
      await rate(load, 0.5);
      const before = [process.cpuUsage().user + process.cpuUsage().system, cpuMicroseconds(database.pid)];
      const perSecond = await rate(load, Number(values.seconds));
      const decisions = perSecond * Number(values.seconds);
      const ours = (process.cpuUsage().user + process.cpuUsage().system - before[0]!) / decisions;
      const theirs = (cpuMicroseconds(database.pid) - before[1]!) / decisions;
      results.get(batch)!.push(perSecond);
      console.log(
        `round ${round + 1} batch ${batch}: ${Math.round(perSecond)}/s, CPU us a decision: ` +
          `control plane ${ours.toFixed(1)}, PostgreSQL ${theirs.toFixed(1)}`,
      );
      await lanes.close();
    }
  }
  for (const [batch, rates] of results) {
    const spread = `${Math.round(Math.min(...rates))}..${Math.round(Math.max(...rates))}`;
    console.log(`batch ${batch}: median ${Math.round(median(rates))} decisions/s (${spread})`);
  }
  await sql.end();
  await database.stop();
}

await main();
