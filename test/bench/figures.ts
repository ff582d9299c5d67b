// Figures of a bench: what was measured in each run, their middle and spread, and how they are printed. Pure.

export interface Figure {
  what: string;
  unit: string;
  /** One value a run. */
  values: readonly number[];
  /** What the median is held against; undefined: nothing was aimed at. */
  aim?: Aim;
}

type Aim = { atLeast: number } | { atMost: number };

export interface Spread {
  median: number;
  min: number;
  max: number;
  runs: number;
}

/** The value that so many of all are at or below (nearest rank); NaN of none. @param share 0 to 1 */
export function percentile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  const rank = Math.max(1, Math.ceil(share * sorted.length));
  return sorted[rank - 1] ?? Number.NaN;
}

/** The middle one, or the mean of the two middle ones. */
export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const upper = sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
  const lower = sorted[Math.ceil(sorted.length / 2) - 1] ?? Number.NaN;
  return (lower + upper) / 2;
}

export function spreadOf(values: readonly number[]): Spread {
  return {
    median: median(values),
    min: percentile(values, 0),
    max: percentile(values, 1),
    runs: values.length,
  };
}

/** Each of ours by the baseline's of the same round: what disturbed the round disturbed both. */
export function ratios(ours: readonly number[], baseline: readonly number[]): number[] {
  return pairs(ours, baseline).map(([own, base]) => own / base);
}

/** Each of ours less the baseline's of the same round. */
export function differences(ours: readonly number[], baseline: readonly number[]): number[] {
  return pairs(ours, baseline).map(([own, base]) => own - base);
}

function pairs(ours: readonly number[], baseline: readonly number[]): Array<[number, number]> {
  if (ours.length !== baseline.length) {
    throw new RangeError(`${ours.length} runs can't be held against ${baseline.length}`);
  }
  return ours.map((own, at) => [own, baseline[at] ?? Number.NaN]);
}

/** Null when nothing was aimed at. */
export function isMet({ values, aim }: Figure): boolean | null {
  if (aim === undefined) return null;
  return "atLeast" in aim ? median(values) >= aim.atLeast : median(values) <= aim.atMost;
}

/** Three digits that count, and blanks between thousands: 0.0412, 4.12, 412, 41 200. */
export function formatNumber(value: number): string {
  if (!Number.isFinite(value)) return "-";
  const size = Math.abs(value);
  if (size >= 1000) {
    const step = 10 ** (Math.floor(Math.log10(size)) - 2);
    return String(Math.round(value / step) * step).replace(/\B(?=(\d{3})+$)/g, " ");
  }
  const digits = size === 0 ? 0 : Math.max(0, 2 - Math.floor(Math.log10(size)));
  return value.toFixed(Math.min(digits, 4));
}

export const FIGURE_COLUMNS = ["measured", "unit", "median", "min", "max", "runs", "aim", "met"] as const;

export function figureRow(figure: Figure): string[] {
  const { median: middle, min, max, runs } = spreadOf(figure.values);
  const { aim } = figure;
  const met = isMet(figure);
  const aimText =
    aim === undefined
      ? ""
      : "atLeast" in aim
        ? `>= ${formatNumber(aim.atLeast)}`
        : `<= ${formatNumber(aim.atMost)}`;
  return [
    figure.what,
    figure.unit,
    formatNumber(middle),
    formatNumber(min),
    formatNumber(max),
    String(runs),
    aimText,
    met === null ? "" : met ? "yes" : "no",
  ];
}

/** A plain table: the first two columns to the left, numbers to the right, two blanks between. */
export function table(columns: readonly string[], rows: ReadonlyArray<readonly string[]>): string {
  const all = [columns, ...rows];
  const widths = columns.map((_, at) => Math.max(...all.map((row) => (row[at] ?? "").length)));
  const line = (row: readonly string[]) =>
    widths
      .map((width, at) => (at < 2 ? (row[at] ?? "").padEnd(width) : (row[at] ?? "").padStart(width)))
      .join("  ")
      .trimEnd();
  return [line(columns), widths.map((width) => "-".repeat(width)).join("  "), ...rows.map(line)].join("\n");
}

/** Lines of at most so many characters, broken at blanks; a longer word stands alone. */
export function wrap(text: string, chars: number): string[] {
  const lines: string[] = [];
  for (const word of text.split(" ")) {
    const last = lines.at(-1);
    if (last === undefined || last.length + 1 + word.length > chars) lines.push(word);
    else lines[lines.length - 1] = `${last} ${word}`;
  }
  return lines;
}
