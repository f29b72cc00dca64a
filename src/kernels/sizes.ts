/**
 * @module Sizes as expressions of fields, such as `aligned(g * c * bytes(dtype))`: evaluated here, and written in Rust by
 * scripts/kernel-calls.ts, with checks for overflow.
 */
import { type DType, dtypes } from "../ir/dtype.ts";
import { invariant } from "../util/errors.ts";
import { aligned } from "./room.ts";

/** A parsed expression. */
export type Size =
  | { readonly number: number }
  /** A field, or an element of a list. */
  | { readonly name: string; readonly index?: number }
  | { readonly of: Operation; readonly inputs: readonly Size[] };

type List = readonly number[];

/**
 * Operations of expressions. `bytes` is the width of a dtype, `reach` the distance from the first to the last of `n` things that are
 * `by` apart. On lists: `init` and `tail` drop the last and the first element; `half` replaces the last, n, by `n / 2 + 1`.
 */
const operations = {
  add: (a: number, b: number) => a + b,
  mul: (a: number, b: number) => a * b,
  min: (a: number, b: number) => Math.min(a, b),
  aligned,
  reach: (n: number, by: number) => Math.max(n - 1, 0) * by,
  bytes: (dtype: DType) => dtypes[dtype].bytes,
  rank: (list: List) => list.length,
  init: (list: List) => list.slice(0, -1),
  tail: (list: List) => list.slice(1),
  half: (list: List) => [...list.slice(0, -1), Math.floor((list.at(-1) as number) / 2) + 1],
};

export type Operation = keyof typeof operations;

const parsed = new Map<string, Size>();

/** Parses an expression of a description, with a cache. */
export function parseSize(text: string): Size {
  const known = parsed.get(text) ?? parse(text);
  parsed.set(text, known);
  return known;
}

function parse(text: string): Size {
  const tokens = text.match(/\d+|\w+|\S/g) ?? [];
  const take = (token: string): boolean => tokens[0] === token && tokens.shift() !== undefined;
  const folded = (sign: string, of: Operation, next: () => Size): Size => {
    let left = next();
    while (take(sign)) left = { of, inputs: [left, next()] };
    return left;
  };
  const sum = (): Size => folded("+", "add", () => folded("*", "mul", atom));
  const close = (token: string): void => invariant(take(token), `'${text}' is not a size: there is no '${token}'`);
  const atom = (): Size => {
    const token = tokens.shift() ?? "";
    if (/^\d/.test(token)) return { number: Number(token) };
    if (token === "(") {
      const inner = sum();
      close(")");
      return inner;
    }
    if (take("(")) {
      const inputs = [sum()];
      while (take(",")) inputs.push(sum());
      close(")");
      invariant(token in operations, `'${text}' is not a size: there is no ${token}(…)`);
      return { of: token as Operation, inputs };
    }
    if (!take("[")) return { name: token };
    const index = Number(tokens.shift());
    close("]");
    return { name: token, index };
  };
  const whole = sum();
  invariant(tokens.length === 0, `'${text}' is not a size: '${tokens.join(" ")}' is left over`);
  return whole;
}

/** The value of an expression, a number or a list; `held` gives the value of a name. */
export function evaluateSize(size: Size, held: (name: string) => unknown): number | List {
  if ("number" in size) return size.number;
  if ("of" in size)
    return (operations[size.of] as (...inputs: unknown[]) => number | List)(
      ...size.inputs.map((input) => evaluateSize(input, held)),
    );
  const value = held(size.name);
  return size.index === undefined ? (value as number) : ((value as List)[size.index] as number);
}
