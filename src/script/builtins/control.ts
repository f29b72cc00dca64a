/** @module Builtins that control a run. */

import { HeddleError } from "../../util/errors.ts";
import { builtin, type Given } from "../builtin.ts";
import { asMatrix, boolean, List, Scalar, type Value } from "../values.ts";
import { textOf } from "./lists.ts";

builtin("print", "...", "prints a value, or a text with values in the places of %d, %f and %s", (args, host) => {
  const [first, ...more] = args.all.map(({ value }) => value);
  if (first === undefined) throw new HeddleError("argument", "print: takes a value");
  host.print(more.length === 0 ? textOf(first).replace(/\n$/, "") : formatted(textOf(first), more));
  return [];
});

/** Java's `String.format`, for numbers and texts. */
function formatted(text: string, values: readonly Value[]): string {
  let next = 0;
  return text.replace(/%(?:(%)|(-?\d+)?(?:\.(\d+))?([dfsegb]))/g, (whole, percent, width, decimals, letter) => {
    if (percent !== undefined) return "%";
    const value = values[next++];
    if (value === undefined) return whole as string;
    const scalar = value instanceof Scalar ? value : undefined;
    const body =
      scalar === undefined || letter === "s" || letter === "b"
        ? textOf(value)
        : letter === "d"
          ? String(Math.trunc(scalar.number))
          : letter === "f"
            ? scalar.number.toFixed(Number(decimals ?? 6))
            : scalar.number.toExponential(Number(decimals ?? 6));
    const size = Number(width ?? 0);
    return size < 0 ? body.padEnd(-size) : body.padStart(size);
  });
}

builtin("stop", "message", "ends the script with an error", (args) => {
  throw new HeddleError("script", args.text("message"));
});
builtin("assert", "test", "ends the script with an error unless the test is true", (args) => {
  if (!args.flag("test")) throw new HeddleError("script", "the assertion does not hold");
  return [];
});
builtin(
  "time",
  "",
  "nanoseconds, to measure what lies between two calls: a scalar",
  () => new Scalar("int", Math.round(performance.now() * 1e6)),
);
builtin("exists", "X", "whether there is a variable of this name: a boolean", (args, host) => {
  const value = args.value("X");
  return boolean(value instanceof Scalar && value.type === "string" ? host.has(value.text) : true);
});
builtin("lineage", "X", "how a value was computed: not kept", () => {
  throw new HeddleError("script", "lineage: how a value was computed is not kept");
});
builtin("compress decompress local", "X", "the value itself: formats are Heddle's matter", (args) => args.value("X"));

/** Calls by a name that is a value: arguments stand in the call, or in one list. */
function evaluated(all: readonly Given[]): { readonly name: string; readonly args: readonly Given[] } {
  const [first, ...rest] = all;
  if (!(first?.value instanceof Scalar)) throw new HeddleError("argument", "eval: takes the name of a function first");
  const [only] = rest;
  const list = rest.length === 1 && only?.value instanceof List ? only.value : undefined;
  const args = list?.items.map((value, index) => ({ name: list.names[index], value })) ?? rest;
  return { name: first.value.text, args };
}

builtin("eval", "...", "the result of a function that is named by a text, as a matrix", (args, host) => {
  const { name, args: given } = evaluated(args.all);
  const [value] = host.call(name, given);
  if (value === undefined) throw new HeddleError("argument", `eval: ${name} gives no value`);
  return value instanceof Scalar && value.type !== "string" ? asMatrix(value) : value;
});
builtin("evalList", "...", "the results of a function that is named by a text: a list", (args, host) => {
  const { name, args: given } = evaluated(args.all);
  return new List(host.call(name, given));
});
