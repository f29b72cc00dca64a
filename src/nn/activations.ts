/** @module Layers without variables. */

import { formatType } from "../ir/shape.ts";
import { erf, relu as reluOf, sigmoid as sigmoidOf, type Tensor, tanh as tanhOf } from "../tensor/index.ts";
import { HeddleError } from "../util/errors.ts";
import { activation, type Layer, positioned } from "./layer.ts";

/** max(x, 0). */
export const relu = (): Layer => activation(reluOf, "relu");

/** The hyperbolic tangent. */
export const tanh = (): Layer => activation(tanhOf, "tanh");

/** 1 / (1 + exp(-x)). */
export const sigmoid = (): Layer => activation(sigmoidOf, "sigmoid");

/** x · Φ(x), the exact form with the error function. */
export const gelu = (): Layer => activation((x: Tensor) => x.mul(erf(x.mul(Math.SQRT1_2)).add(1)).mul(0.5), "gelu");

/** All dims but the first into one: `[batch, …]` to `[batch, n]`. */
export function flatten(): Layer {
  return positioned({
    kind: "flatten",
    init(_key, input) {
      const [batch, ...rest] = input.shape;
      if (batch === undefined) throw new HeddleError("shape", `takes [batch, …], got the scalar ${formatType(input)}`);
      const size = rest.reduce((product, dim) => product * dim, 1);
      return { params: {}, state: {}, output: { dtype: input.dtype, shape: [batch, size] } };
    },
    apply: (_variables, x) => {
      const [batch, ...rest] = x.shape;
      const size = rest.reduce((product, dim) => product * dim, 1);
      return { y: x.reshape([batch as number, size]), state: {} };
    },
  });
}
