/** @module Parts of values: `X[a:b, c]`, also where something is assigned to. Positions count from 1, and both ends belong to a range. */

import { full, Matrix } from "../matrix/index.ts";
import { HeddleError } from "../util/errors.ts";
import { asMatrix, constantsOf, Frame, kindOf, List, Scalar, type Value } from "./values.ts";

/** A range in one dim: undefined for everything, else positions from 1 with both ends, or a name. */
export type Range = readonly [from: number, to: number] | string | undefined;

function within(range: Range, length: number, what: string): readonly [number, number] {
  if (range === undefined) return [0, length];
  if (typeof range === "string") throw new HeddleError("argument", `a matrix has no ${what} "${range}"`);
  const [from, to] = range;
  if (from >= 1 && to <= length && from <= to) return [from - 1, to];
  throw new HeddleError("shape", `${what} ${from === to ? from : `${from} to ${to}`} are outside of 1 to ${length}`, {
    hint: "indices count from 1, and both ends of a range belong to it",
  });
}

/** A part of a value. @throws HeddleError `shape` for an index outside */
export function part(value: Value, ranges: readonly Range[]): Value {
  if (value instanceof List) return partOfList(value, ranges);
  // One index is that of rows.
  const [rows, columns] = ranges;
  if (value instanceof Frame) {
    const [from, to] = within(rows, value.rows, "rows");
    const [first, last] = within(columnsOf(value, columns), value.columns.length, "columns");
    return new Frame(
      value.columns.slice(first, last).map((column) => column.slice(from, to)),
      value.names.slice(first, last),
      value.schema.slice(first, last),
    );
  }
  if (!(value instanceof Matrix)) throw new HeddleError("argument", `${kindOf(value)} has no parts`);
  return value.slice(within(rows, value.rows, "rows"), within(columns, value.columns, "columns"));
}

function columnsOf({ names }: Frame, range: Range): Range {
  if (typeof range !== "string") return range;
  const at = names.indexOf(range) + 1;
  if (at === 0) throw new HeddleError("argument", `the frame has no column "${range}"`);
  return [at, at];
}

/** @throws HeddleError `argument` for a second index */
function checkListIndex([, second, ...more]: readonly Range[]): void {
  // A list is one column.
  const isFirst = second === undefined || (Array.isArray(second) && second[0] === 1 && second[1] === 1);
  if (!isFirst || more.length > 0) throw new HeddleError("argument", "a list has one index");
}

function partOfList({ items, names }: List, ranges: readonly Range[]): List {
  checkListIndex(ranges);
  const [range] = ranges;
  if (typeof range === "string") {
    const at = names.indexOf(range);
    if (at < 0) throw new HeddleError("argument", `the list has no element "${range}"`);
    return new List([items[at] as Value], [range]);
  }
  const [from, to] = within(range, items.length, "elements");
  return new List(items.slice(from, to), names.slice(from, to));
}

/** A value with a part of it replaced. @throws HeddleError `shape` for an index outside, or a part of another size */
export function replaced(value: Value, ranges: readonly Range[], by: Value): Value {
  if (value instanceof List) return replacedInList(value, ranges, by);
  if (value instanceof Frame) return replacedInFrame(value, ranges, by);
  if (!(value instanceof Matrix)) throw new HeddleError("argument", `${kindOf(value)} has no parts to assign to`);
  const [rows, columns] = ranges;
  const [from, to] = within(rows, value.rows, "rows");
  const [first, last] = within(columns, value.columns, "columns");
  const given = asMatrix(by);
  const isScalar = by instanceof Scalar && (to - from !== 1 || last - first !== 1);
  const update = isScalar ? full(to - from, last - first, given) : given;
  if (update.rows !== to - from || update.columns !== last - first)
    throw new HeddleError(
      "shape",
      `a matrix of ${update.rows}x${update.columns} does not fit a part of ${to - from}x${last - first}`,
    );
  return value.update(update, from, first);
}

function replacedInList({ items, names }: List, ranges: readonly Range[], by: Value): List {
  checkListIndex(ranges);
  const [range] = ranges;
  const value = by instanceof List && by.items.length === 1 ? (by.items[0] as Value) : by;
  if (typeof range === "string") {
    const at = names.indexOf(range);
    if (at < 0) return new List([...items, value], [...items.map((_item, index) => names[index]), range]);
    return new List(items.with(at, value), names);
  }
  const [from] = within(range, items.length, "elements");
  return new List(items.with(from, value), names);
}

function replacedInFrame(frame: Frame, ranges: readonly Range[], by: Value): Frame {
  const [from, to] = within(ranges[0], frame.rows, "rows");
  const [first, last] = within(columnsOf(frame, ranges[1]), frame.columns.length, "columns");
  if (by instanceof Matrix || (by instanceof Scalar && by.lazy !== undefined)) constantsOf("frame", asMatrix(by));
  const cell = (i: number, j: number): string => {
    if (by instanceof Frame) return by.columns[j]?.[i] ?? "";
    return by instanceof Scalar ? by.text : String(asMatrix(by).dataSync()[i * (last - first) + j]);
  };
  const columns = frame.columns.map((column, j) =>
    j < first || j >= last ? column : column.map((old, i) => (i < from || i >= to ? old : cell(i - from, j - first))),
  );
  return new Frame(columns, frame.names, frame.schema);
}
