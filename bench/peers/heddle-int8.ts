/** @module Heddle's perceptron in i8: weights quantised once, inputs of products in each step. */
import { round, select, type Tensor } from "heddle";
import type { MlpSizes } from "../kinds/index.ts";
import type { Tree } from "./heddle-data.ts";

/** Whole numbers in place of floats: a float is about `(value - zero) scale`. */
interface Quantised {
  readonly values: Tensor;
  readonly scale: Tensor;
  readonly zero?: Tensor;
}

/** Weights in i8, by their largest absolute value. */
function quantisedWeight(weight: Tensor): Quantised {
  const scale = weight.abs().max().div(127);
  return { values: round(weight.div(scale)).cast("i8"), scale };
}

/** Inputs of a product in u8, by their range, which has 0 in it. */
function quantisedInput(x: Tensor): Quantised {
  const [low, high] = [x.min().minimum(0), x.max().maximum(0)];
  const scale = select(high.eq(low), 1, high.sub(low).div(255));
  const zero = round(low.neg().div(scale));
  const values = round(x.div(scale)).add(zero).maximum(0).minimum(255);
  return { values: values.cast("u8"), scale, zero: zero.cast("i32") };
}

/** A product of whole numbers in i32, as floats. */
function product(x: Quantised, weight: Quantised): Tensor {
  const [left, right] = [x.values.cast("i32").sub(x.zero as Tensor), weight.values.cast("i32")];
  return left.matmul(right.transpose()).cast("f32").mul(x.scale.mul(weight.scale));
}

/** The parameters of a perceptron with quantised weights. */
export const quantised = (params: Tree): Tree =>
  Object.fromEntries(
    Object.entries(params).map(([name, layer]) => {
      const { weight, bias } = layer as { readonly weight: Tensor; readonly bias: Tensor };
      const { values, scale } = quantisedWeight(weight);
      return [name, { values, scale, bias }];
    }),
  );

/** Applies the perceptron to the parameters of {@link quantised}. */
export function applyQuantised({ widths }: MlpSizes, params: Tree, x: Tensor): Tensor {
  return widths.slice(1).reduce((input, _width, index) => {
    const { values, scale, bias } = params[2 * index] as unknown as Quantised & { readonly bias: Tensor };
    const y = product(quantisedInput(input), { values, scale }).add(bias);
    return index === widths.length - 2 ? y : y.relu();
  }, x);
}
