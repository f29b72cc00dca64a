/** @module Activations, by the names and with the numbers that ONNX's recurrent layers give them. */

import { HeddleError } from "../../extend/index.ts";
import type { Tensor } from "../../functions/index.ts";
import * as h from "../../functions/index.ts";
import { functional as f } from "../../nn/index.ts";

export type Activation = (x: Tensor) => Tensor;

export const lowerSlope = (x: Tensor, slope: Tensor | number): Tensor => h.select(x.lt(0), x.mul(slope), x);

export const elu = (x: Tensor, alpha: number): Tensor => h.select(x.gt(0), x, h.expm1(x.minimum(0)).mul(alpha));

export const hardSigmoid = (x: Tensor, alpha: number, beta: number): Tensor =>
  x.mul(alpha).add(beta).maximum(0).minimum(1);

export const thresholdedRelu = (x: Tensor, alpha: number): Tensor => h.select(x.gt(alpha), x, h.zerosLike(x));

/** An activation with parameters: their defaults, undefined where ONNX has none, so that the node must give them. */
interface Parametric {
  readonly alpha?: number | undefined;
  readonly beta?: number | undefined;
  readonly takes: readonly ("alpha" | "beta")[];
  readonly of: (x: Tensor, alpha: number, beta: number) => Tensor;
}

const plain: { readonly [name: string]: Activation } = {
  relu: (x) => x.maximum(0),
  sigmoid: h.sigmoid,
  softplus: h.softplus,
  softsign: f.softsign,
  tanh: h.tanh,
};

/** By https://onnx.ai/onnx/operators/onnx__LSTM.html; defaults are those of the ops of these names. */
const parametric: { readonly [name: string]: Parametric } = {
  affine: { takes: ["alpha", "beta"], of: (x, alpha, beta) => x.mul(alpha).add(beta) },
  elu: { takes: ["alpha"], alpha: 1, of: elu },
  hardsigmoid: { takes: ["alpha", "beta"], alpha: 0.2, beta: 0.5, of: hardSigmoid },
  leakyrelu: { takes: ["alpha"], alpha: 0.01, of: lowerSlope },
  scaledtanh: { takes: ["alpha", "beta"], of: (x, alpha, beta) => h.tanh(x.mul(beta)).mul(alpha) },
  thresholdedrelu: { takes: ["alpha"], alpha: 1, of: thresholdedRelu },
};

const row = <Row>(table: { readonly [name: string]: Row }, name: string): Row | undefined =>
  Object.hasOwn(table, name) ? table[name] : undefined;

/**
 * The activations of these names. An activation with parameters takes the next numbers of the lists, in order, and its
 * defaults where a list has ended.
 */
export function activationsNamed(
  names: readonly string[],
  alphas: readonly number[],
  betas: readonly number[],
): Activation[] {
  const next = { alpha: alphas[Symbol.iterator](), beta: betas[Symbol.iterator]() };
  return names.map((name) => {
    const known = row(plain, name.toLowerCase());
    if (known !== undefined) return known;
    const found = row(parametric, name.toLowerCase());
    if (found === undefined) {
      throw new HeddleError("op", `activation ${name} is not imported`, {
        hint: `imported activations: ${[...Object.keys(plain), ...Object.keys(parametric)].sort().join(", ")}`,
      });
    }
    const numbers = { alpha: 0, beta: 0 };
    for (const which of found.takes) {
      const number: number | undefined = next[which].next().value ?? found[which];
      if (number === undefined)
        throw new HeddleError("format", `activation ${name} has no activation_${which}, for which ONNX has no default`);
      numbers[which] = number;
    }
    return (x) => found.of(x, numbers.alpha, numbers.beta);
  });
}
