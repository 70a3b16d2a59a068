import type { Measurement } from './rounds.ts';

const BASELINES = ['bare-http-proxy', 'bare-node'];

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
  /** Requests a second as a share of the baseline's in the same round: median, min and max over the rounds. */
  readonly ratios: Readonly<Record<string, Spread>>;
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
    const ratios: Record<string, Spread> = {};
    for (const baseline of BASELINES) {
      const shares = rounds.flatMap((one) => {
        const beside = measurements.find(
          (other) => other.contender === baseline && other.round === one.round && other.connections === one.connections,
        );
        return beside === undefined ? [] : [one.load.rps / beside.load.rps];
      });
      if (shares.length > 0) ratios[baseline] = spread(shares);
    }
    return {
      contender: first.contender,
      connections: first.connections,
      accounts: first.accounts,
      rps: spread(rounds.map((one) => one.load.rps)),
      p50_us: spread(rounds.map((one) => one.load.p50_us)),
      p99_us: spread(rounds.map((one) => one.load.p99_us)),
      cpu_us: mediansByGroup(rounds.map((one) => one.cpu_us)),
      rss_bytes: mediansByGroup(rounds.map((one) => one.rss_bytes)),
      ratios,
    };
  });
}

const whole = ({ median, min, max }: Spread): string =>
  `${Math.round(median)} (${Math.round(min)}..${Math.round(max)})`;
const share = ({ median, min, max }: Spread): string => `${median.toFixed(3)} (${min.toFixed(3)}..${max.toFixed(3)})`;

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
    ...BASELINES.map((baseline) => (row.ratios[baseline] === undefined ? '-' : share(row.ratios[baseline]))),
    groups(row.cpu_us, 1),
    groups(row.rss_bytes, 1_048_576),
  ];
}

/** The rows as a Markdown table: medians with (min..max), latencies in microseconds. */
export function table(rows: readonly SummaryRow[]): string {
  const head = ['contender', 'connections', 'requests/s', 'p50 µs', 'p99 µs'];
  const heads = [...head, ...BASELINES.map((one) => `of ${one}`), 'CPU µs/request', 'RSS MiB'];
  const sorted = rows.toSorted((a, b) => a.connections - b.connections);
  const lines = [heads, heads.map(() => '---'), ...sorted.map(cells)];
  return lines.map((line) => `| ${line.join(' | ')} |`).join('\n');
}
