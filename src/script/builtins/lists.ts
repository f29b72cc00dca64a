/** @module Builtins for lists, conversions and text. */

import { HeddleError } from "../../util/errors.ts";
import { builtin, wholeOf } from "../builtin.ts";
import {
  asMatrix,
  asScalar,
  boolean,
  double,
  Frame,
  int,
  kindOf,
  List,
  Scalar,
  string,
  type Value,
} from "../values.ts";
import { asFrame } from "./reorganize.ts";

builtin(
  "list",
  "...",
  "a list of values, which may have names",
  (args) =>
    new List(
      args.all.map(({ value }) => value),
      args.all.map(({ name }) => name),
    ),
);

builtin("remove", "list at", "[the list without an element, a list of the element]", (args) => {
  const list = args.value("list");
  if (!(list instanceof List)) throw new HeddleError("argument", `remove: takes a list, got ${kindOf(list)}`);
  const wanted = args.scalar("at");
  const at = wanted.type === "string" ? list.names.indexOf(wanted.text) : wholeOf(wanted.number) - 1;
  if (at < 0 || at >= list.items.length)
    throw new HeddleError("shape", `remove: the list has no element ${wanted.text}`);
  const without = <Item>(items: readonly Item[]): Item[] => items.filter((_item, index) => index !== at);
  return [new List(without(list.items), without(list.names)), new List([list.items[at] as Value], [list.names[at]])];
});

builtin("as.matrix", "X", "a value as a matrix", (args) => asMatrix(args.value("X")));
builtin("as.scalar castAsScalar", "X", "the only element of a value", (args) => asScalar(args.value("X")));
builtin("as.list", "X", "the list within a list", (args) => {
  const value = args.value("X");
  const [inner] = value instanceof List ? value.items : [];
  return inner instanceof List && value instanceof List && value.items.length === 1 ? inner : value;
});
builtin("as.frame", "X", "a matrix or a scalar as text: a frame of its size", (args) => asFrame(args.value("X")));
builtin("as.double", "X", "a scalar as a double", (args) => {
  const scalar = args.scalar("X");
  return scalar.lazy === undefined ? double(scalar.number) : double(scalar.lazy);
});
builtin("as.integer", "X", "a scalar without its fraction", (args) => int(args.int("X")));
builtin("as.logical as.boolean", "X", "a scalar as a boolean", (args) => boolean(args.flag("X")));

/** A number with a fixed count of decimals, as Java rounds it: half up. */
function fixed(value: number, decimals: number): string {
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "-∞";
  const text = value.toFixed(decimals);
  return Number(text) === 0 && value < 0 ? text.replace("-", "-") : text;
}

/** A value as text, as `print(toString(X))` shows it. */
export function textOf(
  value: Value,
  options: {
    readonly rows?: number;
    readonly columns?: number;
    readonly decimals?: number;
    readonly separator?: string;
    readonly line?: string;
  } = {},
): string {
  const { rows = 100, columns = 100, decimals = 3, separator = " ", line = "\n" } = options;
  if (value instanceof Scalar) return value.text;
  if (value instanceof List)
    return `[${value.items.map((item, index) => `${value.names[index] === undefined ? "" : `${value.names[index]}=`}${textOf(item, options)}`).join(", ")}]`;
  if (value instanceof Frame) {
    const head = `# FRAME: nrow = ${value.rows}, ncol = ${value.columns.length}${line}# ${value.names.join(separator)}${line}# ${value.schema.join(separator)}${line}`;
    const body = Array.from(
      { length: Math.min(rows, value.rows) },
      (_unused, row) =>
        value.columns
          .slice(0, columns)
          .map((column) => column[row])
          .join(separator) + line,
    );
    return head + body.join("");
  }
  return value
    .arraySync()
    .slice(0, rows)
    .map(
      (row) =>
        row
          .slice(0, columns)
          .map((number) => fixed(number, decimals))
          .join(separator) + line,
    )
    .join("");
}

builtin("toString", "X rows? cols? decimal? sparse? sep? linesep?", "a value as text", (args) =>
  string(
    textOf(args.value("X"), {
      rows: args.int("rows", 100),
      columns: args.int("cols", 100),
      decimals: args.int("decimal", 3),
      separator: args.text("sep", " "),
      line: args.text("linesep", "\n"),
    }),
  ),
);

builtin("colnames", "X", "the names of the columns of a frame: a frame of one row", (args) => {
  const value = args.value("X");
  if (!(value instanceof Frame)) throw new HeddleError("argument", `colnames: takes a frame, got ${kindOf(value)}`);
  return new Frame(value.names.map((name) => [name]));
});
