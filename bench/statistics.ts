/** @module Statistics of lists of times. */

/** The median: the middle value, or the mean of both middle values; NaN of an empty list. */
export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  if (sorted.length === 0) return Number.NaN;
  if (sorted.length % 2 === 1) return sorted[middle] as number;
  return ((sorted[middle - 1] as number) + (sorted[middle] as number)) / 2;
}

/** The value that so many percent of all are at most; NaN of an empty list. */
export function percentile(values: readonly number[], percent: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil((percent / 100) * sorted.length) - 1)] ?? Number.NaN;
}

/** The smallest value; NaN of an empty list. */
export const smallest = (values: readonly number[]): number =>
  values.length === 0 ? Number.NaN : values.reduce((min, value) => Math.min(min, value));

/** `|a - b|` relative to the larger of both. */
export const relativeDifference = (a: number, b: number): number =>
  a === b ? 0 : Math.abs(a - b) / Math.max(Math.abs(a), Math.abs(b));
