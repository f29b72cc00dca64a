/** @module Features as few bins, which histograms are made over. */

import type { Matrix } from "../../matrix/index.ts";

/** Most bins of a feature: a code is a byte. */
export const mostBins = 255;

/** Examples as bins, a column after another. */
export interface Binned {
  readonly rows: number;
  readonly columns: number;
  /** The bin of each example, feature after feature. */
  readonly codes: Uint8Array;
  /** Of each feature, the least and the largest value of each bin, ascending. */
  readonly bounds: readonly { readonly low: Float64Array; readonly high: Float64Array }[];
}

/** Each distinct value is a bin; of more values than `bins`, bins have about as many examples each. */
export function binned(x: Matrix, bins: number): Binned {
  const data = x.dataSync();
  const { rows, columns } = x;
  const codes = new Uint8Array(rows * columns);
  const bounds = Array.from({ length: columns }, (_unused, column) => {
    const values = new Float64Array(rows);
    for (let row = 0; row < rows; row++) values[row] = data[row * columns + column] as number;
    const sorted = values.slice().sort();
    const bound = boundsOf(sorted, bins);
    for (let row = 0; row < rows; row++) codes[column * rows + row] = placeOf(bound.high, values[row] as number);
    return bound;
  });
  return { rows, columns, codes, bounds };
}

function boundsOf(sorted: Float64Array, bins: number): { readonly low: Float64Array; readonly high: Float64Array } {
  const ends: number[] = [];
  const { length } = sorted;
  let distinct = 1;
  for (let at = 1; at < length; at++) if (sorted[at] !== sorted[at - 1]) distinct++;
  // An end is the last example of a bin; equal values share a bin.
  let wanted = distinct <= bins ? 1 : length / bins;
  for (let at = 0; at < length; at++) {
    if (at + 1 < length && sorted[at] === sorted[at + 1]) continue;
    if (distinct > bins && at + 1 < wanted && at + 1 < length) continue;
    ends.push(at);
    wanted = at + 1 + (length - at - 1) / Math.max(1, bins - ends.length);
  }
  return {
    low: Float64Array.from(ends, (_end, bin) => sorted[bin === 0 ? 0 : (ends[bin - 1] as number) + 1] as number),
    high: Float64Array.from(ends, (end) => sorted[end] as number),
  };
}

/** The first bin whose largest value is at least `value`. */
function placeOf(high: Float64Array, value: number): number {
  let [low, top] = [0, high.length - 1];
  while (low < top) {
    const middle = (low + top) >> 1;
    if ((high[middle] as number) >= value) top = middle;
    else low = middle + 1;
  }
  return low;
}
