/** @module Builtins that make matrices. */

import { binary, dense, flip, full, Matrix, rand, seq } from "../../matrix/index.ts";
import { HeddleError } from "../../util/errors.ts";
import { type Args, builtin, type Host } from "../builtin.ts";
import { asMatrix, asScalar, Frame, int, List, numberFrom, Scalar, string, type Value } from "../values.ts";

/** Numbers of a text, as in `matrix("1 2 3 4", 2, 2)`. */
function numbersOf(text: string): Float64Array {
  return Float64Array.from(
    text
      .trim()
      .split(/[\s,]+/)
      .filter((word) => word !== ""),
    (word) => {
      const value = numberFrom(word);
      if (value === undefined) throw new HeddleError("argument", `matrix: "${word}" is not a number`);
      return value;
    },
  );
}

function reshaped(x: Matrix, rows: number, columns: number, byRow: boolean): Matrix {
  if (rows * columns !== x.size)
    throw new HeddleError("shape", `matrix: ${x.rows}x${x.columns} does not fill ${rows}x${columns}`);
  return byRow ? x.reshape(rows, columns) : x.T.reshape(columns, rows).T;
}

builtin(
  "matrix",
  "data rows? cols? byrow?",
  "a matrix of one number, of a text of numbers, or of the elements of a matrix: rows x cols",
  (args) => {
    const data = args.value("data");
    if (data instanceof Scalar) {
      if (data.type !== "string") return full(args.int("rows"), args.int("cols"), data.lazy ?? data.number);
      const numbers = numbersOf(data.text);
      return reshaped(dense(numbers, 1, numbers.length), args.int("rows"), args.int("cols"), args.flag("byrow", true));
    }
    const x = asMatrix(data);
    if (!args.has("rows") && !args.has("cols")) return x;
    const rows = args.has("rows") ? args.int("rows") : x.size / args.int("cols");
    return reshaped(x, rows, args.has("cols") ? args.int("cols") : x.size / rows, args.flag("byrow", true));
  },
);
builtin("reshape", "X rows cols byrow?", "the elements of X in another size: rows x cols", (args) =>
  reshaped(args.matrix("X"), args.int("rows"), args.int("cols"), args.flag("byrow", true)),
);

const seedOf = (args: Args, host: Host): number => {
  const given = args.int("seed", -1);
  return given < 0 ? host.seed() : given;
};

builtin(
  "rand Rand",
  "rows? cols? min? max? sparsity? seed? pdf? lambda?",
  "random numbers: rows x cols",
  (args, host) => {
    const [rows, columns] = [args.int("rows", 1), args.int("cols", 1)];
    const [pdf, seed] = [args.text("pdf", "uniform"), seedOf(args, host)];
    if (pdf !== "uniform" && pdf !== "normal")
      throw new HeddleError("argument", `rand: the distribution "${pdf}" is not there`, {
        hint: 'write "uniform" or "normal"',
      });
    const numbers = rand(rows, columns, { seed, distribution: pdf });
    const [low, high] = [args.number("min", 0), args.number("max", 1)];
    const spread = pdf === "normal" || (low === 0 && high === 1) ? numbers : numbers.mul(high - low).add(low);
    const sparsity = args.number("sparsity", 1);
    if (sparsity >= 1) return spread;
    return spread.mul(binary("lt", rand(rows, columns, { seed: seed + 2 ** 40 }), sparsity));
  },
);

builtin("seq", "from to incr?", "the numbers from, from + incr, … up to to: a column", (args) => {
  const [from, to] = [args.number("from"), args.number("to")];
  const step = args.has("incr") ? args.number("incr") : from <= to ? 1 : -1;
  if ((to - from) * step < 0)
    throw new HeddleError("argument", `seq: ${from} does not reach ${to} in steps of ${step}`);
  return seq(from, to, step);
});

builtin(
  "sample",
  "range size replace? seed?",
  "random numbers from 1 to range, each once unless replace is TRUE: size x 1",
  (args, host) => {
    const [range, size] = [args.int("range"), args.int("size")];
    // The third argument may also be the seed.
    const third = args.has("replace") ? args.scalar("replace") : undefined;
    const replace = third?.type === "boolean" && third.number !== 0;
    const seed = third !== undefined && third.type !== "boolean" ? third.number : seedOf(args, host);
    if (!replace && size > range)
      throw new HeddleError("argument", `sample: ${size} different numbers up to ${range} do not exist`);
    const draws = rand(1, replace ? size : range, { seed }).dataSync();
    if (replace)
      return dense(
        draws.map((draw) => 1 + Math.floor(draw * range)),
        size,
        1,
      );
    const order = [...draws.keys()].sort((a, b) => (draws[a] as number) - (draws[b] as number)).slice(0, size);
    return dense(
      Float64Array.from(order, (position) => position + 1),
      size,
      1,
    );
  },
);

builtin("rev", "X", "the rows in reverse order: the size of X", (args) => flip(args.matrix("X")));

builtin("nrow", "X", "the number of rows: a scalar", (args) => {
  const value = args.value("X");
  return int(value instanceof Frame ? value.rows : args.matrix("X").rows);
});
builtin("ncol", "X", "the number of columns: a scalar", (args) => {
  const value = args.value("X");
  return int(value instanceof Frame ? value.columns.length : args.matrix("X").columns);
});
builtin("length", "X", "the number of elements, also of a list and of a text: a scalar", (args) => {
  const value = args.value("X");
  if (value instanceof List) return int(value.items.length);
  if (value instanceof Scalar && value.type === "string") return int(value.text.length);
  return int(value instanceof Frame ? value.rows * value.columns.length : args.matrix("X").size);
});

builtin(
  "frame",
  "data rows? cols? schema?",
  "a frame of one text, or of a list of texts by row: rows x cols",
  (args) => {
    const data = args.value("data");
    if (data instanceof List) return frameOfList(data.items, args.int("rows", 1), args.int("cols", data.items.length));
    const text = args.text("data");
    const columns = Array.from({ length: args.int("cols", 1) }, () =>
      new Array<string>(args.int("rows", 1)).fill(text),
    );
    return new Frame(columns);
  },
);
function frameOfList(items: readonly Value[], rows: number, columns: number): Frame {
  if (items.length !== rows * columns)
    throw new HeddleError("shape", `frame: ${items.length} texts do not fill ${rows}x${columns}`);
  return new Frame(
    Array.from({ length: columns }, (_unused, j) =>
      Array.from({ length: rows }, (_row, i) => asScalar(items[i * columns + j] as Value).text),
    ),
  );
}
builtin("typeof class", "X", "the type of a value: a text", (args) => {
  const value = args.value("X");
  return string(
    value instanceof Matrix
      ? "MATRIX"
      : value instanceof Frame
        ? "FRAME"
        : value instanceof List
          ? "LIST"
          : value.type.toUpperCase(),
  );
});
