/**
 * @module Activation functions of tensors: PyTorch's, elementwise but for `glu`, with its values and gradients at kinks, at
 * infinities and for NaN. Each keeps shape and dtype (floats; 16-bit ones are computed in f32 and rounded once). The layers of
 * the same names are in `activations.ts`.
 *
 * The argument of a branch that is not taken is replaced by a harmless value: an infinity there would make the gradient NaN.
 */

import {
  erf,
  expm1,
  minimum,
  moveDim,
  oneHot,
  random,
  remat,
  select,
  softplus as softplusOf,
  stopGradient,
  type Tensor,
} from "../functions/index.ts";
import { inFloat32 } from "../functions/wide.ts";
import { isFloat, isHalf } from "../ir/dtype.ts";
import { formatType } from "../ir/shape.ts";
import { checkTensor } from "../tensor/tensor.ts";
import { HeddleError, within } from "../util/errors.ts";
import { checkNumber, checkOptions } from "../util/options.ts";

export { logSoftmax, relu, scaledDotProductAttention, sigmoid, softmax, tanh } from "../functions/index.ts";

/** Applies a function to a tensor, 16-bit floats in f32. Errors of the operations inside name the function. */
const ofTensor = (name: string, input: Tensor, body: (x: Tensor) => Tensor): Tensor =>
  within(name, () => {
    checkTensor(name, input);
    // The backward pass starts from the 16-bit input: f32 intermediate values are computed again, not kept.
    return isHalf(input.dtype) ? remat((x: Tensor) => inFloat32([x], body))(input) : body(input);
  });

/** `alpha · (exp(x) - 1)` up to 0, x above it (Clevert et al., 2016). */
export function elu(input: Tensor, options: { readonly alpha?: number } = {}): Tensor {
  return ofTensor("elu", input, (x) => {
    checkOptions("elu", options, ["alpha"]);
    const { alpha = 1 } = options;
    checkNumber("elu", "alpha", alpha);
    return select(x.gt(0), x, expm1(select(x.gt(0), 0, x)).mul(alpha));
  });
}

const seluAlpha = 1.6732632423543772;
const seluScale = 1.0507009873554805;

/** `elu` with the scale and alpha that keep mean 0 and variance 1 (Klambauer et al., 2017). */
export const selu = (input: Tensor): Tensor =>
  ofTensor("selu", input, (x) => elu(x, { alpha: seluAlpha }).mul(seluScale));

/** `alpha · (exp(x / alpha) - 1)` up to 0, x above it: `elu` with a continuous slope (Barron, 2017). */
export function celu(input: Tensor, options: { readonly alpha?: number } = {}): Tensor {
  return ofTensor("celu", input, (x) => {
    checkOptions("celu", options, ["alpha"]);
    const { alpha = 1 } = options;
    checkNumber("celu", "alpha", alpha);
    if (alpha === 0) throw new HeddleError("option", "celu: alpha must not be 0");
    return select(x.gt(0), x, expm1(select(x.gt(0), 0, x).mul(1 / alpha)).mul(alpha));
  });
}

/** Options of {@link gelu}. */
export interface GeluOptions {
  /** `"none"` (default): exact, by the error function; `"tanh"`: `0.5 x (1 + tanh(√(2/π) (x + 0.044715 x³)))`. */
  readonly approximate?: "none" | "tanh";
}

/** `x · Φ(x)`, Φ the normal distribution (Hendrycks and Gimpel, 2016). */
export function gelu(input: Tensor, options: GeluOptions = {}): Tensor {
  return ofTensor("gelu", input, (x) => {
    checkOptions("gelu", options, ["approximate"]);
    const { approximate = "none" } = options;
    if (approximate === "none") return x.mul(erf(x.mul(Math.SQRT1_2)).add(1)).mul(0.5);
    if (approximate !== "tanh")
      throw new HeddleError("option", `gelu: approximate must be none or tanh, got ${String(approximate)}`);
    // Beyond 100 tanh is 1 in every dtype; an infinite square would make its slope NaN.
    const root = Math.sqrt(2 / Math.PI);
    const inner = x.mul(
      minimum(x.mul(x), 1e4)
        .mul(0.044715 * root)
        .add(root),
    );
    return x.mul(inner.tanh().add(1)).mul(0.5);
  });
}

/** `x · sigmoid(x)`, also called swish (Ramachandran et al., 2017). */
export const silu = (input: Tensor): Tensor => ofTensor("silu", input, (x) => x.mul(x.sigmoid()));

/** `x · tanh(softplus(x))` (Misra, 2019). */
export const mish = (input: Tensor): Tensor => ofTensor("mish", input, (x) => x.mul(softplusOf(x).tanh()));

/** x clamped to `[min, max]`, by default [-1, 1]; the gradient is 0 at both ends. */
export function hardtanh(input: Tensor, options: { readonly min?: number; readonly max?: number } = {}): Tensor {
  return ofTensor("hardtanh", input, (x) => {
    checkOptions("hardtanh", options, ["min", "max"]);
    const { min = -1, max = 1 } = options;
    checkNumber("hardtanh", "min", min);
    checkNumber("hardtanh", "max", max, min);
    return between(x, min, max);
  });
}

/** x clamped to `[min, max]`; NaN stays NaN. */
const between = (x: Tensor, min: number, max: number): Tensor => select(x.le(min), min, select(x.ge(max), max, x));

/** `min(max(x, 0), 6)`. */
export const relu6 = (input: Tensor): Tensor => ofTensor("relu6", input, (x) => between(x, 0, 6));

/** `relu6(x + 3) / 6`: 0 up to -3, 1 from 3 on, a line between (Howard et al., 2019). */
export const hardsigmoid = (input: Tensor): Tensor =>
  ofTensor("hardsigmoid", input, (x) => select(x.le(-3), 0, select(x.ge(3), 1, x.mul(1 / 6).add(0.5))));

/** `x · relu6(x + 3) / 6` (Howard et al., 2019). */
export const hardswish = (input: Tensor): Tensor =>
  ofTensor("hardswish", input, (x) => x.mul(between(x.add(3), 0, 6).mul(1 / 6)));

/** x above 0, `negativeSlope · x` (default 0.01) up to it. */
export function leakyRelu(input: Tensor, options: { readonly negativeSlope?: number } = {}): Tensor {
  return ofTensor("leakyRelu", input, (x) => {
    checkOptions("leakyRelu", options, ["negativeSlope"]);
    const { negativeSlope = 0.01 } = options;
    checkNumber("leakyRelu", "negativeSlope", negativeSlope);
    return select(x.gt(0), x, x.mul(negativeSlope));
  });
}

/** Options of {@link rrelu}. */
export interface RreluOptions {
  /** Smallest slope; default 1/8. */
  readonly lower?: number;
  /** Largest slope, at least `lower`; default 1/3. */
  readonly upper?: number;
  /** Key (u32[2]) that draws a slope for each element, as in training; without it all slopes are `(lower + upper) / 2`. */
  readonly key?: Tensor | undefined;
}

/**
 * x above 0, a slope times x up to 0: the mean slope, or, with a key, a slope drawn uniformly for each element (Xu et al., 2015). The
 * drawn slope depends on the key and the element's position alone.
 *
 * @throws HeddleError `option` when `upper` is less than `lower`; `dtype` unless x is float
 */
export function rrelu(input: Tensor, options: RreluOptions = {}): Tensor {
  return ofTensor("rrelu", input, (x) => {
    checkOptions("rrelu", options, ["lower", "upper", "key"]);
    const { lower = 1 / 8, upper = 1 / 3, key } = options;
    checkNumber("rrelu", "lower", lower);
    checkNumber("rrelu", "upper", upper, lower);
    if (!isFloat(x.dtype)) throw new HeddleError("dtype", `rrelu: takes floats, got ${formatType(x)}`);
    if (key === undefined) return leakyRelu(x, { negativeSlope: (lower + upper) / 2 });
    const slope = random.uniform(key, x.shape, { min: lower, max: upper, dtype: x.dtype });
    return select(x.gt(0), x, select(x.gt(0), 0, x).mul(slope));
  });
}

/** `log(1 + exp(beta · x)) / beta`; beta is 1 by default. Exact everywhere, while PyTorch's is x from `beta · x = 20` on. */
export function softplus(input: Tensor, options: { readonly beta?: number } = {}): Tensor {
  return ofTensor("softplus", input, (x) => {
    checkOptions("softplus", options, ["beta"]);
    const { beta = 1 } = options;
    checkNumber("softplus", "beta", beta, Number.MIN_VALUE);
    return beta === 1 ? softplusOf(x) : softplusOf(x.mul(beta)).mul(1 / beta);
  });
}

/** `x / (1 + |x|)`. */
export const softsign = (input: Tensor): Tensor => ofTensor("softsign", input, (x) => x.div(x.abs().add(1)));

/** x moved towards 0 by `lambda` (default 0.5), and 0 if it is within `lambda` of 0. */
export function softshrink(input: Tensor, options: { readonly lambda?: number } = {}): Tensor {
  return ofTensor("softshrink", input, (x) => {
    const lambda = shrinkage("softshrink", options);
    return select(x.gt(lambda), x.sub(lambda), select(x.lt(-lambda), x.add(lambda), nearZero(x, lambda)));
  });
}

/** x, but 0 where it is within `lambda` (default 0.5) of 0. */
export function hardshrink(input: Tensor, options: { readonly lambda?: number } = {}): Tensor {
  return ofTensor("hardshrink", input, (x) => {
    const lambda = shrinkage("hardshrink", options);
    return select(x.gt(lambda), x, select(x.lt(-lambda), x, nearZero(x, lambda)));
  });
}

function shrinkage(name: string, options: { readonly lambda?: number }): number {
  checkOptions(name, options, ["lambda"]);
  const { lambda = 0.5 } = options;
  checkNumber(name, "lambda", lambda, 0);
  return lambda;
}

/** 0, or NaN itself. */
const nearZero = (x: Tensor, lambda: number): Tensor => select(x.abs().le(lambda), 0, x);

/** `x - tanh(x)`. */
export const tanhshrink = (input: Tensor): Tensor => ofTensor("tanhshrink", input, (x) => x.sub(x.tanh()));

/** x where it is above `threshold`, else `value`. */
export function threshold(input: Tensor, options: { readonly threshold: number; readonly value: number }): Tensor {
  return ofTensor("threshold", input, (x) => {
    checkOptions("threshold", options, ["threshold", "value"]);
    checkNumber("threshold", "threshold", options.threshold);
    checkNumber("threshold", "value", options.value);
    return select(x.le(options.threshold), options.value, x);
  });
}

/** `log(sigmoid(x))`, without overflow. */
export const logSigmoid = (input: Tensor): Tensor => ofTensor("logSigmoid", input, (x) => softplusOf(x.neg()).neg());

/** The softmax of `-x` over a dim (default the last). */
export const softmin = (input: Tensor, dim = -1): Tensor => ofTensor("softmin", input, (x) => x.neg().softmax(dim));

/** Options of {@link gumbelSoftmax}. */
export interface GumbelSoftmaxOptions {
  /** Key (u32[2]) of the noise. */
  readonly key: Tensor;
  /** PyTorch's `tau`: the smaller, the nearer the result is to a single class. Default 1. */
  readonly temperature?: number;
  /** Give a one-hot class, with the gradient of the soft result; default false. */
  readonly hard?: boolean;
  /** The dim of the classes; default the last. */
  readonly dim?: number;
}

/**
 * Draws a class from logits, with a gradient (Jang et al., 2017; Maddison et al., 2017): the softmax of
 * `(x + g) / temperature` with g of the Gumbel distribution. The largest is each class with the probability of `softmax(x)`.
 *
 * @throws HeddleError `option` for a temperature that is not above 0; `dtype` unless x is float
 */
export function gumbelSoftmax(input: Tensor, options: GumbelSoftmaxOptions): Tensor {
  return ofTensor("gumbelSoftmax", input, (x) => {
    checkOptions("gumbelSoftmax", options, ["key", "temperature", "hard", "dim"]);
    const { key, temperature = 1, hard = false, dim = -1 } = options;
    checkNumber("gumbelSoftmax", "temperature", temperature, Number.MIN_VALUE);
    if (!isFloat(x.dtype)) throw new HeddleError("dtype", `gumbelSoftmax: takes floats, got ${formatType(x)}`);
    // 16 bits would give few different numbers.
    const dtype = x.dtype === "f64" ? "f64" : "f32";
    const noise = random.gumbel(key, x.shape, { dtype });
    const soft = x
      .cast(dtype)
      .add(noise)
      .mul(1 / temperature)
      .softmax(dim)
      .cast(x.dtype);
    if (!hard) return soft;
    const classes = x.shape.at(dim) as number;
    const hardClass = moveDim(oneHot(soft.argMax(dim), classes, { dtype: x.dtype }), -1, dim);
    // The added term is exactly 0, so the values are 0 or 1.
    return hardClass.add(soft.sub(stopGradient(soft)));
  });
}

/**
 * Gated linear unit (Dauphin et al., 2017): the first half of a dim (default the last) times the sigmoid of the second.
 *
 * @throws HeddleError `shape` when the dim's size is odd
 */
export function glu(input: Tensor, dim = -1): Tensor {
  return ofTensor("glu", input, (x) => {
    const splitDim = dim < 0 ? dim + x.shape.length : dim;
    const size = x.shape[splitDim];
    if (size === undefined) throw new HeddleError("shape", `glu: there is no dim ${dim} in ${formatType(input)}`);
    if (size % 2 !== 0) throw new HeddleError("shape", `glu: dim ${dim} of ${formatType(input)} cannot be halved`);
    const half = (start: number): Tensor => {
      const bound = (value: number): number[] => x.shape.map((length, axis) => (axis === splitDim ? value : length));
      return x.slice(
        x.shape.map((_length, axis) => (axis === splitDim ? start : 0)),
        bound(start + size / 2),
      );
    };
    return half(0).mul(half(size / 2).sigmoid());
  });
}

/**
 * x above 0, a learned slope times x up to it (He et al., 2015).
 *
 * @param slope `[1]`, or one slope for each size of dim 1
 */
export function prelu(input: Tensor, slope: Tensor): Tensor {
  return ofTensor("prelu", input, (x) => {
    checkTensor("prelu", slope);
    const [count] = slope.shape;
    if (slope.shape.length !== 1 || (count !== 1 && count !== x.shape[1]))
      throw new HeddleError(
        "shape",
        `prelu: slopes ${formatType(slope)} do not fit ${formatType(input)}: one, or one per size of dim 1`,
      );
    const spread =
      count === 1 ? slope.reshape([]) : slope.reshape(x.shape.map((length, dim) => (dim === 1 ? length : 1)));
    return select(x.gt(0), x, select(x.gt(0), 0, x).mul(spread));
  });
}
