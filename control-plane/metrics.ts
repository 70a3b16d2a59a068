import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import type { EvidenceKind } from '../core/evidence.ts';
import type { DecisionMetrics, FactsSource } from './decisions/account-facts.ts';
import type { NotificationResult } from './notifications/dispatcher.ts';
import type { TimestampResult } from './timestamps/timestamps.ts';
import type { CosignatureResult } from './witnesses/cosignatures.ts';

/** From 100 µs, so that one commit on a fast disk can be told from ten. */
const DURATION_BUCKETS_S = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5];
const SIZE_BUCKETS = [1, 2, 4, 8, 16, 32, 64, 128, 256];

/** What is asked when metrics are scraped. */
export interface MetricsReadings {
  readonly laneDepth: () => number;
  readonly pendingEscalations: () => Promise<number>;
}

/** The metrics of a control plane (design §9); no label takes unbounded values. */
export class ControlPlaneMetrics implements DecisionMetrics {
  readonly registry = new Registry();
  readonly #decisions = new Counter({
    name: 'mandate_decisions_total',
    help: 'Decisions by path, decision and denial code',
    labelNames: ['path', 'decision', 'code'] as const,
    registers: [this.registry],
  });
  /** By path, decision and code: bounded by the table of denial codes. */
  readonly #decisionCounters = new Map<string, Counter.Internal>();
  readonly #durations = new Histogram({
    name: 'mandate_decision_batch_duration_seconds',
    help: 'Time from taking a batch off its lane to its commit',
    buckets: DURATION_BUCKETS_S,
    registers: [this.registry],
  });
  readonly #sizes = new Histogram({
    name: 'mandate_decision_batch_size',
    help: 'Decisions and outcomes in one transaction',
    buckets: SIZE_BUCKETS,
    registers: [this.registry],
  });
  readonly #outcomes = new Counter({
    name: 'mandate_gateway_outcome_total',
    help: 'How forwarded requests were booked',
    labelNames: ['outcome'] as const,
    registers: [this.registry],
  });
  readonly #evidence = new Counter({
    name: 'mandate_evidence_entries_total',
    help: 'Evidence entries by kind',
    labelNames: ['kind'] as const,
    registers: [this.registry],
  });
  readonly #limited = new Counter({
    name: 'mandate_rate_limited_total',
    help: 'Requests refused by a token bucket',
    labelNames: ['class'] as const,
    registers: [this.registry],
  });

  readonly #facts = new Counter({
    name: 'mandate_decision_facts_total',
    help: 'Batches by where their facts came from; changed: carried facts that were no longer so, and then read',
    labelNames: ['source'] as const,
    registers: [this.registry],
  });

  readonly #notifications = new Counter({
    name: 'mandate_notifications_total',
    help: 'Notifications by channel and result; failed: an attempt that will be repeated',
    labelNames: ['channel', 'result'] as const,
    registers: [this.registry],
  });
  readonly #timestamps = new Counter({
    name: 'mandate_timestamps_total',
    help: 'Attempts to have a tree head timestamped (RFC 3161) by how they ended',
    labelNames: ['result'] as const,
    registers: [this.registry],
  });
  readonly #cosignatures = new Counter({
    name: 'mandate_witness_cosignatures_total',
    help: 'Attempts to have a tree head cosigned by a witness by how they ended',
    labelNames: ['result'] as const,
    registers: [this.registry],
  });
  /** When the last of each was stored by this process, by the monotonic clock. */
  #timestampAt: number | null = null;
  #cosignatureAt: number | null = null;

  constructor() {
    collectDefaultMetrics({ register: this.registry });
    this.#age('mandate_timestamp_age_seconds', 'Since this process stored a timestamp', () => this.#timestampAt);
    this.#age('mandate_witness_cosignature_age_seconds', 'Since this process stored a cosignature', () => {
      return this.#cosignatureAt;
    });
  }

  /** A gauge of the seconds since a moment; it has no value before the first. */
  #age(name: string, help: string, at: () => number | null): void {
    new Gauge({
      name,
      help,
      registers: [this.registry],
      collect() {
        const moment = at();
        // A gauge begins with 0, which would say that there was one just now.
        if (moment === null) this.remove();
        else this.set((performance.now() - moment) / 1000);
      },
    });
  }

  decision(path: 'gateway' | 'verify', decision: 'allow' | 'deny' | 'escalate', code: string): void {
    // On the way of every request: looking labels up by hash costs more than everything else here.
    const key = `${path} ${decision} ${code}`;
    let counter = this.#decisionCounters.get(key);
    if (counter === undefined) {
      counter = this.#decisions.labels({ path, decision, code });
      this.#decisionCounters.set(key, counter);
    }
    counter.inc();
  }

  outcome(outcome: 'booked' | 'released' | 'unknown'): void {
    this.#outcomes.inc({ outcome });
  }

  batch(size: number, seconds: number): void {
    this.#sizes.observe(size);
    this.#durations.observe(seconds);
  }

  /** The depth is read when it is scraped; see {@link watch}. */
  laneDepth(): void {}

  evidence(kind: EvidenceKind, count: number): void {
    this.#evidence.inc({ kind }, count);
  }

  facts(source: FactsSource): void {
    this.#facts.inc({ source });
  }

  rateLimited(rateClass: 'verify' | 'management'): void {
    this.#limited.inc({ class: rateClass });
  }

  notification(channel: 'webhook' | 'mail', result: NotificationResult): void {
    this.#notifications.inc({ channel, result });
  }

  /** Adds the gauges of the outbox; where it cannot be read they are left out of that scrape. */
  watchNotifications(read: () => Promise<{ readonly depth: number; readonly oldestSeconds: number }>): void {
    const age = new Gauge({
      name: 'mandate_notification_oldest_age_seconds',
      help: 'Age of the oldest notification that is neither delivered nor given up',
      registers: [this.registry],
    });
    new Gauge({
      name: 'mandate_notification_queue_depth',
      help: 'Notifications that are neither delivered nor given up',
      registers: [this.registry],
      async collect() {
        const state = await read().catch(() => null);
        if (state === null) {
          this.reset();
          age.reset();
          return;
        }
        this.set(state.depth);
        age.set(state.oldestSeconds);
      },
    });
  }

  timestamp(result: TimestampResult): void {
    this.#timestamps.inc({ result });
    if (result === 'stored') this.#timestampAt = performance.now();
  }

  cosignature(result: CosignatureResult): void {
    this.#cosignatures.inc({ result });
    if (result === 'stored') this.#cosignatureAt = performance.now();
  }

  /** Adds the gauges that are read when somebody scrapes; one that cannot be read is left out of that scrape. */
  watch(readings: MetricsReadings): void {
    new Gauge({
      name: 'mandate_lane_depth',
      help: 'Items that wait on all lanes',
      registers: [this.registry],
      collect() {
        this.set(readings.laneDepth());
      },
    });
    new Gauge({
      name: 'mandate_escalations_pending',
      help: 'Escalations that wait for an answer',
      registers: [this.registry],
      async collect() {
        await readings.pendingEscalations().then(
          (count) => this.set(count),
          () => this.reset(),
        );
      },
    });
  }
}
