import type { Measurement } from './rounds.ts';

/** What the contenders are compared with; the last only with ourselves. */
const BASELINES = ['bare-http-proxy', 'bare-node', 'gateway-batch-1'] as const;

interface Spread {
  readonly median: number;
  readonly min: number;
  readonly max: number;
}

/** One line of the table: a contender at a level over all rounds. */
export interface SummaryRow {
  readonly contender: string;
  readonly connections: number;
  readonly accounts: number;
  readonly rps: Spread;
  readonly p50_us: Spread;
  readonly p99_us: Spread;
  /** Medians over the rounds, by process group. */
  readonly cpu_us: Readonly<Record<string, number>>;
  readonly rss_bytes: Readonly<Record<string, number>>;
  /** Beside each baseline in the same round. */
  readonly beside: Readonly<Record<string, Comparison>>;
}

/** A contender beside a baseline in the same rounds: median, min and max over the rounds. */
interface Comparison {
  /** Requests a second as a share of the baseline's. */
  readonly rps: Spread;
  /** The 99th percentile of the latency as a share of the baseline's. */
  readonly p99: Spread;
  /** Microseconds added to the baseline's median latency. */
  readonly added_p50_us: Spread;
}

function spread(values: readonly number[]): Spread {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  const upper = sorted[middle] ?? Number.NaN;
  const median = sorted.length % 2 === 0 ? ((sorted[middle - 1] ?? Number.NaN) + upper) / 2 : upper;
  return { median, min: sorted[0] ?? Number.NaN, max: sorted.at(-1) ?? Number.NaN };
}

function mediansByGroup(records: readonly Readonly<Record<string, number>>[]): Record<string, number> {
  const groups = new Set(records.flatMap((record) => Object.keys(record)));
  return Object.fromEntries(
    [...groups].map((group) => [group, spread(records.flatMap((record) => record[group] ?? [])).median]),
  );
}

/** Medians, extremes and paired ratios of all contenders at all levels. */
export function summarize(measurements: readonly Measurement[]): SummaryRow[] {
  const levels = Map.groupBy(measurements, (one) => `${one.connections} ${one.contender} ${one.accounts}`);
  return [...levels.values()].flatMap((rounds) => {
    const [first] = rounds;
    if (first === undefined) return [];
    const beside = comparisons(rounds, measurements);
    return {
      contender: first.contender,
      connections: first.connections,
      accounts: first.accounts,
      rps: spread(rounds.map((one) => one.load.rps)),
      p50_us: spread(rounds.map((one) => one.load.p50_us)),
      p99_us: spread(rounds.map((one) => one.load.p99_us)),
      cpu_us: mediansByGroup(rounds.map((one) => one.cpu_us)),
      rss_bytes: mediansByGroup(rounds.map((one) => one.rss_bytes)),
      beside,
    };
  });
}

function comparisons(rounds: readonly Measurement[], measurements: readonly Measurement[]): Record<string, Comparison> {
  const compared: Record<string, Comparison> = {};
  for (const baseline of BASELINES) {
    const pairs = rounds.flatMap((one) => {
      const other = measurements.find((base) => base.contender === baseline && isBeside(one, base));
      return other === undefined ? [] : [{ ours: one.load, theirs: other.load }];
    });
    if (pairs.length === 0 || rounds[0]?.contender === baseline) continue;
    compared[baseline] = {
      rps: spread(pairs.map(({ ours, theirs }) => ours.rps / theirs.rps)),
      p99: spread(pairs.map(({ ours, theirs }) => ours.p99_us / theirs.p99_us)),
      added_p50_us: spread(pairs.map(({ ours, theirs }) => ours.p50_us - theirs.p50_us)),
    };
  }
  return compared;
}

function isBeside(one: Measurement, base: Measurement): boolean {
  const sameAccounts = base.accounts === 0 || base.accounts === one.accounts;
  return base.round === one.round && base.connections === one.connections && sameAccounts;
}

const whole = ({ median, min, max }: Spread): string =>
  `${Math.round(median)} (${Math.round(min)}..${Math.round(max)})`;
const share = ({ median, min, max }: Spread): string => `${median.toFixed(3)} (${min.toFixed(3)}..${max.toFixed(3)})`;

function comparison(beside: Comparison | undefined): string {
  if (beside === undefined) return '-';
  return `${share(beside.rps)}; p99 ${share(beside.p99)}; p50 ${whole(beside.added_p50_us)} µs more`;
}

function cells(row: SummaryRow): string[] {
  const groups = (record: Readonly<Record<string, number>>, unit: number): string =>
    Object.entries(record)
      .map(([name, value]) => `${name} ${(value / unit).toFixed(1)}`)
      .join(', ');
  return [
    row.accounts === 0 ? row.contender : `${row.contender}, ${row.accounts} accounts`,
    String(row.connections),
    whole(row.rps),
    whole(row.p50_us),
    whole(row.p99_us),
    ...BASELINES.map((baseline) => comparison(row.beside[baseline])),
    groups(row.cpu_us, 1),
    groups(row.rss_bytes, 1_048_576),
  ];
}

/** The rows as a Markdown table: medians with (min..max), latencies in microseconds. */
export function table(rows: readonly SummaryRow[]): string {
  const head = ['contender', 'connections', 'requests/s', 'p50 µs', 'p99 µs'];
  const heads = [...head, ...BASELINES.map((one) => `beside ${one}`), 'CPU µs/request', 'RSS MiB'];
  const sorted = rows.toSorted((a, b) => a.connections - b.connections);
  const lines = [heads, heads.map(() => '---'), ...sorted.map(cells)];
  return lines.map((line) => `| ${line.join(' | ')} |`).join('\n');
}
