/** @module Builtins whose results have a size or an order that depends on values: they read what they need. */

import { binary, dense, full, type Matrix, ones, table, where, zeros } from "../../matrix/index.ts";
import { HeddleError } from "../../util/errors.ts";
import { type Args, builtin } from "../builtin.ts";
import { asMatrix, double, Frame, Scalar, type Value } from "../values.ts";
import { asFrame } from "./reorganize.ts";

builtin(
  "table",
  "A B C? D? odim1? odim2? ...",
  "weights added up at (A[i], B[i]): the largest values, or the sizes that are given",
  (args) => {
    const given = args.all.filter(({ name }) => name === undefined).map(({ value }) => value);
    const named = new Map(args.all.flatMap(({ name, value }) => (name === undefined ? [] : [[name, value] as const])));
    const unknown = [...named.keys()].find((name) => !/^(A|B|C|weights|(out|o)dim[12])$/.test(name));
    if (unknown !== undefined) throw new HeddleError("argument", `table: there is no argument '${unknown}'`);
    const [first, second] = ["A", "B"].map((name) => named.get(name) ?? given.shift() ?? args.value(name)) as [
      Value,
      Value,
    ];
    const rest = given;
    // Whether empty blocks are kept does not change the result.
    if (rest.at(-1) instanceof Scalar && (rest.at(-1) as Scalar).type === "boolean") rest.pop();
    const rows = asMatrix(first);
    const columns = second instanceof Scalar ? full(rows.rows, 1, second.matrix) : asMatrix(second);
    // table(A, B), table(A, B, weights), table(A, B, rows, columns), table(A, B, weights, rows, columns)
    const isWeighted = rest.length === 1 || rest.length === 3;
    const weight = isWeighted ? (rest[0] as Value) : (named.get("weights") ?? named.get("C") ?? double(1));
    const sizes = (isWeighted ? rest.slice(1) : rest).map((value) => asMatrix(value).itemSync());
    for (const name of ["odim1", "odim2"]) {
      const value = named.get(name) ?? named.get(`out${name.slice(1)}`);
      if (value !== undefined) sizes.push(asMatrix(value).itemSync());
    }
    return tabulated(rows, columns, asMatrix(weight), sizes);
  },
);

/** The largest number, at least 0. */
const largestOf = (values: Float64Array): number => values.reduce((most, value) => (value > most ? value : most), 0);

function tabulated(rows: Matrix, columns: Matrix, weight: Matrix, sizes: readonly number[]): Matrix {
  if (rows.size !== columns.size) throw new HeddleError("shape", `table: ${rows.size} and ${columns.size} positions`);
  const [i, j] = [rows.dataSync(), columns.dataSync()];
  const height = sizes[0] ?? Math.floor(largestOf(i));
  const width = sizes[1] ?? Math.floor(largestOf(j));
  const kept: number[] = [];
  for (let index = 0; index < i.length; index++) {
    const [row, column] = [Math.floor(i[index] as number), Math.floor(j[index] as number)];
    if (!(row >= 1 && column >= 1))
      throw new HeddleError(
        "argument",
        `table: ${i[index]}, ${j[index]} at ${index + 1} is not a place in a matrix: places count from 1`,
      );
    if (row <= height && column <= width) kept.push(index);
  }
  if (kept.length === 0) return zeros(height, width);
  const weights = weight.size === 1 ? full(kept.length, 1, weight) : weight.reshape(weight.size, 1).take(kept);
  const at = (values: Float64Array): number[] => kept.map((index) => Math.floor(values[index] as number) - 1);
  return table(weights, at(i), at(j), [height, width]);
}

builtin(
  "removeEmpty",
  "target margin select? empty.return?",
  "the rows or columns that have an element that is not 0, or that are selected",
  (args) => {
    const margin = args.text("margin");
    if (margin !== "rows" && margin !== "cols")
      throw new HeddleError("argument", `removeEmpty: margin is "rows" or "cols", not "${margin}"`);
    const axis = margin === "rows" ? 0 : 1;
    const target = args.value("target");
    const selected = args.has("select")
      ? args.matrix("select")
      : binary("ne", args.matrix("target"), 0).sum((1 - axis) as 0 | 1);
    const kept = [...selected.dataSync()].flatMap((flag, index) => (flag === 0 ? [] : [index]));
    if (target instanceof Frame) {
      if (axis === 1) throw new HeddleError("argument", "removeEmpty: of a frame only rows can be removed");
      return new Frame(
        target.columns.map((column) => kept.map((row) => column[row] as string)),
        target.names,
        target.schema,
      );
    }
    const x = args.matrix("target");
    const { [axis]: length } = x.shape;
    if (selected.size !== length)
      throw new HeddleError("shape", `removeEmpty: select has ${selected.size} elements for ${length} ${margin}`);
    if (kept.length > 0) return x.take(kept, axis);
    // Nothing is left: one row of zeros, unless an empty matrix is asked for.
    const count = args.flag("empty.return", true) ? 1 : 0;
    return axis === 0 ? zeros(count, x.columns) : zeros(x.rows, count);
  },
);

builtin(
  "order",
  "target by? decreasing? index.return?",
  "the rows in the order of columns, or their positions",
  (args) => {
    const target = args.value("target");
    const x = target instanceof Frame ? undefined : args.matrix("target");
    const by = args.has("by") ? [...args.matrix("by").dataSync()] : [1];
    const rows = target instanceof Frame ? target.rows : (x as Matrix).rows;
    const cell = cellsOf(target);
    const sign = args.flag("decreasing") ? -1 : 1;
    const positions = Array.from({ length: rows }, (_unused, row) => row).sort((a, b) => {
      for (const column of by) {
        const [left, right] = [cell(a, column - 1), cell(b, column - 1)];
        // NaN is last in either order.
        const [isLeft, isRight] = [Number.isNaN(left), Number.isNaN(right)];
        if (isLeft !== isRight) return isLeft ? 1 : -1;
        if (left !== right && !isLeft) return left < right ? -sign : sign;
      }
      return a - b;
    });
    if (args.flag("index.return"))
      return dense(
        Float64Array.from(positions, (row) => row + 1),
        rows,
        1,
      );
    if (x !== undefined) return x.take(positions);
    const frame = target as Frame;
    return new Frame(
      frame.columns.map((column) => positions.map((row) => column[row] as string)),
      frame.names,
      frame.schema,
    );
  },
);

function cellsOf(value: Value): (row: number, column: number) => number | string {
  if (value instanceof Frame) return (row, column) => value.columns[column]?.[row] ?? "";
  const x = asMatrix(value);
  const data = x.dataSync();
  return (row, column) => data[row * x.columns + column] as number;
}

builtin("unique", "X dir?", 'the different elements, or rows (dir = "r"), in order: a column, or rows', (args) => {
  const value = args.value("X");
  if (value instanceof Frame) return asFrame(value);
  const x = args.matrix("X");
  const direction = args.text("dir", "rc");
  if (direction === "rc") {
    const first = new Map<number, number>();
    x.dataSync().forEach((value, position) => {
      if (!first.has(value)) first.set(value, position);
    });
    const different = [...first.keys()].sort((a, b) => a - b);
    return x.reshape(x.size, 1).take(different.map((value) => first.get(value) as number));
  }
  const lines = direction === "r" ? x : x.T;
  const seen = new Set<string>();
  const kept = lines.arraySync().flatMap((row, index) => {
    const key = row.join(" ");
    if (seen.has(key)) return [];
    seen.add(key);
    return [index];
  });
  return direction === "r" ? x.take(kept) : x.take(kept, 1);
});

builtin(
  "aggregate",
  "target groups fn weights? ngroups?",
  "an aggregate of the rows of each group: one row for each group",
  (args) => {
    const [target, groups] = [args.matrix("target"), args.matrix("groups")];
    const count = args.has("ngroups") ? args.int("ngroups") : Math.floor(largestOf(groups.dataSync()));
    const weights = args.has("weights") ? args.matrix("weights") : ones(groups.size, 1);
    const sizes = tabulated(groups, full(groups.size, 1, 1), weights, [count, 1]);
    const sums = (x: Matrix): Matrix => sumsOf(x.mul(weights), groups, count);
    switch (args.text("fn")) {
      case "count":
        return sizes;
      case "sum":
        return sums(target);
      case "mean":
        return sums(target).div(sizes);
      case "variance":
      case "var": {
        // Rows of groups above `count` are not summed; any mean does for them.
        const places = Array.from(groups.dataSync(), (group) => Math.min(Math.floor(group), count) - 1);
        const centred = target.sub(sums(target).div(sizes).take(places));
        return sums(centred.mul(centred)).div(where(sizes, sizes.sub(1), 0));
      }
      default:
        throw new HeddleError("argument", `aggregate: the function "${args.text("fn")}" is not there`, {
          hint: 'it takes "count", "sum", "mean" and "variance"',
        });
    }
  },
);

/** The sums of the rows of each group. A product with a matrix of groups would spread NaN over all of them. */
function sumsOf(x: Matrix, groups: Matrix, count: number): Matrix {
  if (x.rows !== groups.size) throw new HeddleError("shape", `aggregate: ${groups.size} groups for ${x.rows} rows`);
  const across = full(x.rows, 1, 1).matmul(countFrom(x.columns).T).reshape(x.size, 1);
  const down = groups
    .reshape(groups.size, 1)
    .matmul(full(1, x.columns, 1))
    .reshape(x.size, 1);
  return tabulated(down, across, x.reshape(x.size, 1), [count, x.columns]);
}

const countFrom = (count: number): Matrix =>
  dense(
    Float64Array.from({ length: count }, (_unused, index) => index + 1),
    count,
    1,
  );

builtin(
  "rexpand",
  "target max? dir? cast? ignore?",
  "a row with a 1 at its value for each element: nrow(target) x max",
  (args: Args) => {
    const target = args.matrix("target");
    const values = target.dataSync();
    const max = args.has("max") ? args.int("max") : Math.floor(largestOf(values));
    // Without `ignore` an element without a place is an error; with it the row stays 0.
    const kept = [...values.keys()].filter((row) => (values[row] as number) >= 1 || !args.flag("ignore"));
    const column = target.reshape(target.size, 1).take(kept);
    const byRow = tabulated(countFrom(target.size).take(kept), column, double(1).matrix, [target.size, max]);
    return args.text("dir", "cols") === "rows" ? byRow.T : byRow;
  },
);
