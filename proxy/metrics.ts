import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import type { DecisionPath, GatewayOutcome } from '../core/wire.ts';

const BUCKETS = [
  0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60,
];

// One object each, not one for every request.
const PATHS: Readonly<Record<DecisionPath, { path: string }>> = {
  gateway: { path: 'gateway' },
  verify: { path: 'verify' },
};
const OUTCOMES: Readonly<Record<GatewayOutcome['outcome'], { outcome: string }>> = {
  booked: { outcome: 'booked' },
  released: { outcome: 'released' },
  unknown: { outcome: 'unknown' },
};

/** The proxy's metrics (design §9): base units, labels with few values. */
export class ProxyMetrics {
  readonly registry = new Registry();
  readonly #decision = new Histogram({
    name: 'mandate_decision_duration_seconds',
    help: 'Time from asking the control plane to its answer, as the proxy sees it.',
    labelNames: ['path'] as const,
    buckets: BUCKETS,
    registers: [this.registry],
  });
  readonly #forward = new Histogram({
    name: 'mandate_gateway_forward_duration_seconds',
    help: 'Time from forwarding a request to the end of its answer.',
    labelNames: ['outcome'] as const,
    buckets: BUCKETS,
    registers: [this.registry],
  });
  readonly #outcomes = new Counter({
    name: 'mandate_gateway_outcome_total',
    help: 'Forwarded requests by how they ended.',
    labelNames: ['outcome'] as const,
    registers: [this.registry],
  });

  /** `controlPlanesUp` and `inFlight` are read when the metrics are. */
  constructor(read: { readonly controlPlanesUp: () => number; readonly inFlight: () => number }) {
    collectDefaultMetrics({ register: this.registry });
    new Gauge({
      name: 'mandate_control_plane_up',
      help: 'Control planes that answered last.',
      registers: [this.registry],
      collect() {
        this.set(read.controlPlanesUp());
      },
    });
    new Gauge({
      name: 'mandate_gateway_in_flight',
      help: 'Gateway requests being answered.',
      registers: [this.registry],
      collect() {
        this.set(read.inFlight());
      },
    });
  }

  decisionSeconds(path: DecisionPath, seconds: number): void {
    this.#decision.observe(PATHS[path], seconds);
  }

  readonly forwarded = (outcome: GatewayOutcome['outcome'], seconds: number): void => {
    const labels = OUTCOMES[outcome];
    this.#forward.observe(labels, seconds);
    this.#outcomes.inc(labels);
  };
}
