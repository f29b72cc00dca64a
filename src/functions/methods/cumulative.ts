/** @module Cumulative sums, products and extremes along a dim. */

import type { DType } from "../../ir/dtype.ts";
import type { Node } from "../../ir/node.ts";
import * as ops from "../../ops/index.ts";
import { checkWide } from "../../tensor/arguments.ts";
import { operate, type Tensor } from "../../tensor/tensor.ts";
import { checkOptions } from "../../util/options.ts";
import type { WideOptions } from "./reductions.ts";

const cumulative =
  (name: string, kind: ops.CumulativeKind) =>
  (x: Tensor, dim?: number): Tensor =>
    operate(name, (node: Node, at?: number) => ops.cumulative(kind, node, at), [x], dim);

/** A running sum or product, in a dtype that may be named. */
const wideCumulative =
  (name: string, kind: ops.CumulativeKind) =>
  (x: Tensor, dim?: number, options: WideOptions = {}): Tensor => {
    checkOptions(name, options, ["dtype"]);
    checkWide(name, options.dtype);
    const wide = (node: Node, at?: number, dtype?: DType): Node =>
      ops.cumulative(kind, dtype === undefined ? node : ops.cast(node, dtype), at);
    return operate(name, wide, [x], dim, options.dtype);
  };

type WideCumulative = (x: Tensor, dim?: number, options?: WideOptions) => Tensor;

/**
 * Sum of the elements up to and including each one, along a dim (default the last), in the same shape and dtype; integers
 * wrap, or are added in `{ dtype }`; bool is counted in i32.
 */
export const cumsum: WideCumulative = wideCumulative("cumsum", "sum");

/**
 * Product of the elements up to and including each one, along a dim (default the last); integers wrap, or are multiplied in
 * `{ dtype }`; bool gives i32.
 */
export const cumprod: WideCumulative = wideCumulative("cumprod", "prod");

/** Largest of the elements up to and including each one, along a dim (default the last); NaN wins; the first of ties takes the gradient. */
export const cummax: (x: Tensor, dim?: number) => Tensor = cumulative("cummax", "max");

/** Smallest of the elements up to and including each one, along a dim (default the last); NaN wins; the first of ties takes the gradient. */
export const cummin: (x: Tensor, dim?: number) => Tensor = cumulative("cummin", "min");

/** log of the sum of exp of the elements up to and including each one, along a dim (default the last), of floats, without overflow. */
export const logcumsumexp: (x: Tensor, dim?: number) => Tensor = cumulative("logcumsumexp", "logSumExp");
