/** @module Builtins that move elements. */

import { concatenate, diag, type Matrix, ones, triangle } from "../../matrix/index.ts";
import { HeddleError } from "../../util/errors.ts";
import { type Args, builtin } from "../builtin.ts";
import { asMatrix, constantsOf, Frame, List, Scalar, string, type Value } from "../values.ts";

builtin("t", "X", "the transpose: ncol(X) x nrow(X)", (args) => args.matrix("X").T);

/** Lists, frames and matrices are joined; text, too, for `append`. */
function joined(values: readonly Value[], axis: 0 | 1): Value {
  if (values.length === 0)
    throw new HeddleError("argument", `${axis === 0 ? "rbind" : "cbind"}: takes at least one value`);
  if (values.some((value) => value instanceof Frame)) return joinedFrames(values, axis);
  const parts = values.map(asMatrix).filter(({ size }, _index, all) => size > 0 || all.length === 1);
  return parts.length === 0 ? asMatrix(values[0] as Value) : concatenate(parts, axis);
}

function joinedFrames(values: readonly Value[], axis: 0 | 1): Frame {
  const frames = values.map(asFrame);
  if (axis === 1)
    return new Frame(
      frames.flatMap(({ columns }) => columns),
      frames.flatMap(({ names }) => names),
      frames.flatMap(({ schema }) => schema),
    );
  const [first] = frames as [Frame];
  return new Frame(
    first.columns.map((_column, index) => frames.flatMap(({ columns }) => columns[index] ?? [])),
    first.names,
    first.schema,
  );
}

/** A matrix as text, in a frame of doubles. */
export function asFrame(value: Value): Frame {
  if (value instanceof Frame) return value;
  if (value instanceof Scalar) {
    if (value.lazy !== undefined) constantsOf("as.frame", value.lazy);
    return new Frame([[value.text]]);
  }
  if (value instanceof List && value.items.length === 1) return asFrame(value.items[0] as Value);
  const x = asMatrix(value);
  constantsOf("as.frame", x);
  const rows = x.arraySync();
  const columns = Array.from({ length: x.columns }, (_unused, j) => rows.map((row) => String(row[j])));
  return new Frame(
    columns,
    undefined,
    columns.map(() => "FP64"),
  );
}

builtin("cbind", "...", "matrices or frames side by side", (args) =>
  joined(
    args.all.map(({ value }) => value),
    1,
  ),
);
builtin("rbind", "...", "matrices or frames below each other", (args) =>
  joined(
    args.all.map(({ value }) => value),
    0,
  ),
);
builtin("append", "X Y", "a list with one more element, matrices side by side, or texts as lines", (args) => {
  const [x, y] = [args.value("X"), args.value("Y")];
  if (x instanceof Scalar && y instanceof Scalar) return string(`${x.text}\n${y.text}`);
  if (!(x instanceof List)) return joined([x, y], 1);
  const names = x.items.map((_item, index) => x.names[index]);
  // A list of one element is how an element with a name is appended.
  const [only] = y instanceof List && y.items.length === 1 ? y.items : [y];
  return new List([...x.items, only as Value], [...names, y instanceof List && only !== y ? y.names[0] : undefined]);
});

builtin("diag", "X", "a matrix with a column on its diagonal, or the diagonal of a matrix as a column", (args) =>
  diag(args.matrix("X")),
);

function triangular(side: "lower" | "upper"): (args: Args) => Matrix {
  return (args) => {
    const x = args.matrix("target");
    const shift = args.flag("diag") ? 0 : side === "lower" ? -1 : 1;
    return triangle(args.flag("values") ? x : ones(x.rows, x.columns), side, shift);
  };
}
builtin(
  "lower.tri",
  "target diag? values?",
  "ones, or the elements, below the diagonal: the size of target",
  triangular("lower"),
);
builtin(
  "upper.tri",
  "target diag? values?",
  "ones, or the elements, above the diagonal: the size of target",
  triangular("upper"),
);

builtin("roll", "X shift", "the rows moved down by shift, the last ones to the top: the size of X", (args) => {
  const x = args.matrix("X");
  const shift = x.rows === 0 ? 0 : ((args.int("shift") % x.rows) + x.rows) % x.rows;
  return x.take(Array.from({ length: x.rows }, (_unused, row) => (row - shift + x.rows) % x.rows));
});
