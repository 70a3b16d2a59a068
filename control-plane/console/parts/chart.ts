import { type Fragment, type Html, html } from '../html.ts';
import type { Language, Words } from '../words.ts';

/** The colour of a series: one of the palette's, never one of a page's own. */
export type ChartTone = 'accent' | 'info' | 'good' | 'warn' | 'bad' | 'plain';

/** One kind of values that every column has. */
export interface ChartSeries {
  readonly label: string;
  readonly tone: ChartTone;
}

/** A column: its name on the axis, and a value per series, in their order; whole numbers, at least 0. */
export interface ChartPoint {
  readonly label: string;
  readonly values: readonly number[];
}

/** A chart of columns. */
export interface ColumnChart {
  /** What it shows, with the unit of its axis. */
  readonly caption: string;
  /** The heading of the table's first column, such as "Day". */
  readonly axis: string;
  readonly series: readonly ChartSeries[];
  readonly points: readonly ChartPoint[];
  /** A value as the table and the columns say it, in full. */
  readonly format: (value: number) => string;
  /** A value as the axis says it; numbers that are counts need none. */
  readonly short?: (value: number) => string;
  /** `beside`: the series of a point stand side by side; otherwise one upon the other. */
  readonly beside?: boolean;
}

/** Pixels of a chart: the whole, the room above the highest line, and the room below for the names. */
const HEIGHT = 176;
const ABOVE = 10;
const BELOW = 24;
const PLOT = HEIGHT - ABOVE - BELOW;
/** Lines across a chart; the next round step may make one fewer. */
const LINES = 4;
/** Names along the axis that fit half a page. */
const NAMES_MAX = 6;
/** How much of its place a column fills. */
const FILLED = 0.72;

/**
 * Columns drawn by the server as an SVG that fits any width, with the same numbers in a table behind it.
 *
 * The drawing is for eyes only; who cannot see it opens the table.
 */
export function columnChart(visit: { readonly words: Words; readonly language: Language }, chart: ColumnChart): Html {
  const { words, language } = visit;
  const short = chart.short ?? compact(language);
  const most = highest(chart);
  const step = stepOf(most);
  const top = Math.max(step, Math.ceil(most / step) * step);
  // Where there is nothing there is no scale either.
  const lines = Array.from({ length: most === 0 ? 1 : Math.round(top / step) + 1 }, (_, at) => at * step);
  const y = (value: number) => ABOVE + PLOT - (value / top) * PLOT;
  const scale = lines.map(
    (line) => html`<text x="100%" y="${px(y(line) + 4)}" text-anchor="end">${short(line)}</text>`,
  );
  const across = lines.map(
    (line) =>
      html`<line class="${line === 0 ? 'ground' : ''}" x1="0" x2="100%" y1="${px(y(line))}" y2="${px(y(line))}"/>`,
  );
  return html`<figure class="chart"><figcaption>${chart.caption}</figcaption>${legendOf(chart)}
<div class="drawing" aria-hidden="true"><svg class="scale" height="${HEIGHT}">${scale}</svg>
<svg class="plot" height="${HEIGHT}">${across}${columnsOf(chart, top)}${namesOf(chart)}</svg></div>
<details class="behind"><summary>${words.shell.asTable}</summary>${tableOf(chart)}</details></figure>`;
}

/** A row of bars: what it is called (and where that leads), how much, and how that is said. */
export interface BarRow {
  readonly label: Fragment;
  readonly amount: number;
  readonly text: string;
}

/** Bars beside their names, the longest as wide as the place; every number stands beside its bar. */
export function barChart(caption: string, tone: ChartTone, rows: readonly BarRow[]): Html {
  const most = Math.max(1, ...rows.map(({ amount }) => amount));
  const items = rows.map(
    ({ label, amount, text }) => html`<tr><th scope="row">${label}</th><td class="end number">${text}</td>
<td class="stretch" aria-hidden="true"><svg height="10"><rect class="${tone}" x="0" y="0" height="10" rx="2"
width="${((Math.max(0, amount) / most) * 100).toFixed(2)}%"/></svg></td></tr>`,
  );
  return html`<div class="chart"><table class="bars"><caption>${caption}</caption>
<tbody>${items}</tbody></table></div>`;
}

function legendOf({ series }: ColumnChart): Fragment {
  if (series.length < 2) return null;
  const items = series.map(({ label, tone }) => html`<span class="${tone}">${label}</span>`);
  return html`<div class="legend">${items}</div>`;
}

function columnsOf({ series, points, format, beside = false }: ColumnChart, top: number): Fragment {
  const place = 100 / Math.max(1, points.length);
  const width = (place * FILLED) / (beside ? Math.max(1, series.length) : 1);
  return points.map(({ label, values }, at) => {
    let base = 0;
    const left = at * place + (place * (1 - FILLED)) / 2;
    const parts = values.map((value, one) => {
      const tall = (Math.max(0, value) / top) * PLOT;
      const bottom = ABOVE + PLOT - base;
      if (!beside) base += tall;
      if (tall === 0) return null;
      const x = beside ? left + one * width : left;
      return html`<rect class="${series[one]?.tone ?? 'plain'}" x="${x.toFixed(3)}%" y="${px(bottom - tall)}"
width="${width.toFixed(3)}%" height="${px(tall)}"/>`;
    });
    const said = values.map((value, one) => `${series[one]?.label ?? ''} ${format(value)}`.trim()).join(', ');
    return html`<g><title>${label}: ${said}</title>${parts}</g>`;
  });
}

/** As many names as there is room for, the first among them; a phone shows every other one. */
function namesOf({ points }: ColumnChart): Fragment {
  const place = 100 / Math.max(1, points.length);
  const every = Math.ceil(points.length / NAMES_MAX);
  return points.map(({ label }, at) => {
    if (at % every !== 0) return null;
    const x = `${((at + 0.5) * place).toFixed(3)}%`;
    const kind = (at / every) % 2 === 0 ? '' : 'more';
    return html`<text class="${kind}" x="${x}" y="${HEIGHT - 6}" text-anchor="middle">${label}</text>`;
  });
}

function tableOf({ caption, axis, series, points, format }: ColumnChart): Html {
  const head = series.map(({ label }) => html`<th scope="col" class="end">${label}</th>`);
  const rows = points.map(
    ({ label, values }) =>
      html`<tr><th scope="row">${label}</th>${values.map(
        (value) => html`<td class="end number">${format(value)}</td>`,
      )}</tr>`,
  );
  return html`<div class="table" tabindex="0" role="group" aria-label="${caption}"><table>
<caption class="hidden">${caption}</caption><thead><tr><th scope="col">${axis}</th>${head}</tr></thead>
<tbody>${rows}</tbody></table></div>`;
}

function highest({ points, beside = false }: ColumnChart): number {
  const totals = points.map(({ values }) =>
    beside ? Math.max(0, ...values) : values.reduce((sum, one) => sum + one, 0),
  );
  return Math.max(0, ...totals);
}

/** A round step (1, 2, 5 times a power of ten) with at most LINES of them below `most`; at least 1. */
function stepOf(most: number): number {
  const raw = Math.max(1, most / LINES);
  const power = 10 ** Math.floor(Math.log10(raw));
  return power * ([1, 2, 5, 10].find((one) => one * power >= raw) ?? 10);
}

function compact(language: Language): (value: number) => string {
  const form = new Intl.NumberFormat(language, { notation: 'compact', maximumFractionDigits: 1 });
  return (value) => form.format(value);
}

function px(value: number): string {
  return value.toFixed(1);
}
