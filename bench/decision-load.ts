import type { DecisionMetrics } from '../control-plane/decisions/account-facts.ts';
import type { VerificationMeans } from '../control-plane/decisions/ask.ts';
import { Lanes } from '../control-plane/decisions/lanes.ts';
import { VersionCache } from '../control-plane/decisions/versions.ts';
import { TokenBuckets } from '../control-plane/rate-limit/buckets.ts';
import type { GatewayAnswer, GatewayAsk } from '../core/wire.ts';
import type { SeededAccount } from './seed.ts';

const SILENT: DecisionMetrics = {
  decision() {},
  outcome() {},
  batch() {},
  laneDepth() {},
  evidence() {},
  facts() {},
  rateLimited() {},
};

const EMPTY_SHA256 = 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855';

/** Decisions on these accounts, `batch` at a time. */
export interface DecisionLoad {
  readonly databaseUrl: string;
  readonly accounts: readonly SeededAccount[];
  readonly batch: number;
}

interface Receipt {
  readonly account_id: string;
  readonly receipt_id: string;
}

interface Wave {
  readonly lanes: Lanes;
  readonly load: DecisionLoad;
  readonly asks: readonly GatewayAsk[];
}

const NO_VERIFICATIONS: VerificationMeans = { consumptionToken: () => '', signMat: () => '', sandboxAccountId: null };

/** Runs the load through fresh lanes for `seconds` (after a warm-up), with or without telling outcomes. */
export async function decisionRate(
  load: DecisionLoad,
  options: {
    readonly seconds: number;
    readonly outcomes: boolean;
    readonly started?: () => void;
    readonly ended?: () => void;
  },
): Promise<{ perSecond: number; decisions: number }> {
  const lanes = new Lanes({
    databaseUrl: load.databaseUrl,
    versions: new VersionCache(() => ''),
    buckets: new TokenBuckets(),
    verifications: NO_VERIFICATIONS,
    metrics: SILENT,
    logError: (error: unknown) => console.error(error),
    batchMax: options.outcomes ? load.batch * 2 : load.batch,
  });
  const wave = { lanes, load, asks: load.accounts.map(askOf) };
  await run(wave, 0.5, options.outcomes);
  options.started?.();
  const result = await run(wave, options.seconds, options.outcomes);
  // Before the lanes' sessions end: their CPU time goes with them.
  options.ended?.();
  await lanes.close();
  return result;
}

async function run(wave: Wave, seconds: number, outcomes: boolean): Promise<{ perSecond: number; decisions: number }> {
  let decisions = 0;
  let receipts: Receipt[] = [];
  const started = performance.now();
  while (performance.now() < started + seconds * 1000) {
    receipts = await send(wave, decisions, outcomes ? receipts : []);
    decisions += wave.load.batch;
  }
  return { perSecond: decisions / ((performance.now() - started) / 1000), decisions };
}

function send({ lanes, load, asks }: Wave, from: number, settled: readonly Receipt[]): Promise<Receipt[]> {
  const receipts: Receipt[] = [];
  return new Promise((resolve, reject) => {
    let waiting = load.batch + settled.length;
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
    for (let i = 0; i < load.batch; i++) {
      const at = (from + i) % load.accounts.length;
      const { accountId, instanceId } = load.accounts[at]!;
      lanes.submit({ kind: 'ask', accountId, instanceId, ask: asks[at]!, deadlineMs, answer });
    }
  });
}

function askOf(account: SeededAccount): GatewayAsk {
  return {
    path: 'gateway',
    token_hash: account.tokenHash,
    address: '127.0.0.1',
    name: 'http.post:/payments',
    tool: { id: account.toolId, version: 1 },
    reading: { ok: true, amount_minor: 1, currency: 'EUR', counterparty: 'acme' },
    request: { method: 'POST', path: 'payments', query: '', body_sha256: EMPTY_SHA256 },
    bindable: true,
    idempotency_key_hash: null,
    escalation_token_hash: null,
    config_version: 1,
    budget_ms: 10_000,
  };
}
