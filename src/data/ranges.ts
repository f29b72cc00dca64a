/** @module Columns whose values lie elsewhere, in files or behind requests: rows are read by ranges, near rows together. */
import { dtypes, type TypedArray } from "../ir/dtype.ts";
import { HeddleError } from "../util/errors.ts";
import { shown } from "../util/show.ts";
import { type Column, checkedTransform, type RowIndices, type RowRange, rowElements } from "./column.ts";

/** Where the values of a column lie. */
export interface RangeSource {
  /** The stored values of consecutive rows, row-major, in a new array. */
  range(first: number, count: number): Promise<TypedArray>;
  /** As {@link Column.identity}. */
  identity(rows: RowRange, whole: boolean): Promise<string>;
  /** Bytes that are cheaper to read than to skip; default 16 KiB. */
  readonly gap?: number;
}

/** Bytes of one read that joins near rows, at most: the memory that a batch takes besides its own. */
const largestRead = 4 * 2 ** 20;
const defaultGap = 16 * 1024;
/** Reads that are under way at once. */
const mostReads = 8;

/** Rows of a batch that are read at once: `order` from `from` to `to` are their positions, by ascending row. */
interface Read {
  readonly first: number;
  readonly count: number;
  readonly from: number;
  readonly to: number;
}

/**
 * A column whose rows are read when a batch needs them: it may be larger than memory. Near rows of a batch are read together.
 *
 * @throws HeddleError `argument` when the source has no `range` or no `identity`
 */
export function columnFromRanges(
  column: Pick<Column, "name" | "shape" | "dtype" | "transform">,
  source: RangeSource,
): Column {
  const isSource = typeof source?.range === "function" && typeof source.identity === "function";
  if (!isSource || typeof column !== "object" || column === null)
    throw new HeddleError(
      "argument",
      `columnFromRanges: takes a column, and a source with range and identity, got ${shown(column)} and ${shown(source)}`,
    );
  const { name, shape, dtype } = column;
  const width = rowElements(column);
  const gapRows = Math.floor((source.gap ?? defaultGap) / Math.max(1, width * dtypes[dtype].bytes));
  const mostRows = Math.max(1, Math.floor(largestRead / Math.max(1, width * dtypes[dtype].bytes)));
  const read = async (rows: RowIndices): Promise<TypedArray> => {
    const order = ascending(rows);
    const reads = joined(rows, order, gapRows, mostRows);
    const [only] = reads;
    // Rows in the order of the file are used as they are read.
    if (only !== undefined && reads.length === 1 && isConsecutive(rows)) return source.range(only.first, only.count);
    const gathered = dtypes[dtype].create(rows.length * width);
    const pending = reads.values();
    const work = async (): Promise<void> => {
      for (const { first, count, from, to } of pending) {
        const values = await source.range(first, count);
        for (let at = from; at < to; at++) {
          const position = order[at] as number;
          const start = ((rows[position] as number) - first) * width;
          gathered.set(values.subarray(start, start + width), position * width);
        }
      }
    };
    await Promise.all(Array.from({ length: Math.min(mostReads, reads.length) }, work));
    return gathered;
  };
  let kept: WeakRef<TypedArray> | undefined;
  const load = async (): Promise<TypedArray> => {
    const values = kept?.deref() ?? (await source.range(0, shape[0] as number));
    kept = new WeakRef(values);
    return values;
  };
  return Object.freeze({
    name,
    shape: [...shape],
    dtype,
    transform: checkedTransform(name, column.transform),
    load,
    read,
    identity: (rows: RowRange, whole: boolean) => source.identity(rows, whole),
  });
}

/** Positions by ascending row. */
function ascending(rows: RowIndices): Uint32Array {
  const order = Uint32Array.from(rows, (_row, position) => position);
  return isAscending(rows) ? order : order.sort((left, right) => (rows[left] as number) - (rows[right] as number));
}

const isAscending = (rows: RowIndices): boolean => {
  for (let at = 1; at < rows.length; at++) if ((rows[at] as number) < (rows[at - 1] as number)) return false;
  return true;
};

const isConsecutive = (rows: RowIndices): boolean => rows.every((row, at) => row === (rows[0] as number) + at);

/** The reads for rows in ascending order: rows with a small gap between them are read together. */
function joined(rows: RowIndices, order: Uint32Array, gapRows: number, mostRows: number): Read[] {
  const reads: Read[] = [];
  for (let from = 0; from < order.length; ) {
    const first = rows[order[from] as number] as number;
    let last = first;
    let to = from + 1;
    for (; to < order.length; to++) {
      const row = rows[order[to] as number] as number;
      if (row - last > gapRows + 1 || row - first >= mostRows) break;
      last = row;
    }
    reads.push({ first, count: last - first + 1, from, to });
    from = to;
  }
  return reads;
}
