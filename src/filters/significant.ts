/** @module Rows that have changed enough (Li et al., OSDI 2014: the significantly modified filter). */
import {
  eachPart,
  type Filter,
  type FilterSender,
  type Message,
  numbersOf,
  type Part,
  registerFilter,
  rowsAt,
  rowsOf,
} from "./filter.ts";

/**
 * Updates: sends a row when the sum of what was not sent of it is above `threshold` in some element, so nothing is lost: what stays is
 * added to the next message. A row with a NaN is always sent.
 */
export const significant = (threshold: number): Filter => ({
  name: "significant",
  holds: true,
  sender: () => new Significant(threshold),
  receiver: () => ({ decode: (message) => message }),
});

class Significant implements FilterSender {
  private readonly threshold: number;
  /** What was not sent, by tensor and row. */
  private readonly kept = new Map<string, Map<bigint, Float64Array>>();

  constructor(threshold: number) {
    this.threshold = threshold;
  }

  encode(message: Message, { all = false } = {}): Message {
    return eachPart(message, (part, tensor) => this.choose(part, tensor, all));
  }

  private choose(given: Part, tensor: string, all: boolean): Part {
    const kept = this.kept.get(tensor) ?? new Map<bigint, Float64Array>();
    this.kept.set(tensor, kept);
    const part = all ? withKept(given, kept) : given;
    const { width } = part;
    const rows = rowsOf(part, "significant");
    // The message is the caller's: sums go into a copy.
    const values = numbersOf(part, "significant").slice();
    const positions: number[] = [];
    for (const [position, row] of rows.entries()) {
      const own = values.subarray(position * width, (position + 1) * width);
      const rest = kept.get(row);
      if (rest !== undefined) for (const [index, value] of rest.entries()) (own[index] as number) += value;
      // Not "above": a NaN is above nothing.
      if (all || !own.every((value) => Math.abs(value) <= this.threshold)) {
        positions.push(position);
        kept.delete(row);
      } else kept.set(row, Float64Array.from(own));
    }
    return rowsAt({ ...part, values }, positions, "significant");
  }
}

/** The part with zeros for rows that were held back and are not in it. */
function withKept(part: Part, kept: ReadonlyMap<bigint, Float64Array>): Part {
  const { width } = part;
  const rows = rowsOf(part, "significant");
  const there = new Set(rows);
  const more = [...kept.keys()].filter((row) => !there.has(row));
  if (more.length === 0) return part;
  const values = numbersOf(part, "significant");
  const merged = [...[...rows].map((row, at) => [row, at] as const), ...more.map((row) => [row, -1] as const)];
  merged.sort(([left], [right]) => (left < right ? -1 : 1));
  const filled = new (values.constructor as Float64ArrayConstructor)(merged.length * width);
  for (const [index, [, at]] of merged.entries())
    if (at >= 0) filled.set(values.subarray(at * width, (at + 1) * width), index * width);
  return { ...part, rows: BigUint64Array.from(merged, ([row]) => row), values: filled };
}

registerFilter({
  name: "significant",
  doc: "holds a row of updates back until it has changed by more than THRESHOLD",
  numbers: [{ name: "THRESHOLD", doc: "the largest change that is held back", fraction: true }],
  make: (threshold) => significant(threshold as number),
});
