/**
 * @module Initial values of parameters: PyTorch's `nn.init`, as functions of a key, a shape and a dtype. The same key and shape
 * give the same values on any mesh.
 *
 *     nn.linear(10, { init: { weight: nn.init.xavierUniform(), bias: nn.init.constant(0.1) } });
 */

import {
  arange,
  full,
  isTensor,
  maximum,
  minimum,
  pad,
  random,
  scan,
  select,
  type Tensor,
  zeros as zerosOf,
} from "../functions/index.ts";
import { type DType, isHalf } from "../ir/dtype.ts";
import { formatShape, formatType, type Shape, sameShape, sizeOf, type TensorType } from "../ir/shape.ts";
import { erf } from "../ops/special.ts";
import { HeddleError } from "../util/errors.ts";
import { checkNumber, checkOptions } from "../util/options.ts";
import { shown } from "../util/show.ts";
import { beyond, TAIL } from "./normal-tail.ts";

/** Makes a parameter's first value. The key (u32[2]) is the parameter's own; initialisers that draw nothing ignore it. */
export type Initialiser = (key: Tensor, shape: Shape, dtype: DType) => Tensor;

/** Initialisers of a layer's parameters; default PyTorch's. */
export interface LayerInit {
  readonly weight?: Initialiser;
  readonly bias?: Initialiser;
}

/** Checks the option `init` of a layer. */
export function checkInit(layer: string, init: LayerInit): void {
  checkOptions(`${layer}: init`, init, ["weight", "bias"]);
  for (const [name, value] of Object.entries(init)) {
    if (value === undefined || typeof value === "function") continue;
    throw new HeddleError("option", `${layer}: init.${name} must be an initialiser, such as nn.init.xavierUniform()`);
  }
}

/** The initial value of a layer's parameter. @throws HeddleError `option` when the initialiser's result is not a tensor of this type. */
export function initialValue(
  name: string,
  initialiser: Initialiser,
  key: Tensor,
  { shape, dtype }: TensorType,
): Tensor {
  const value: unknown = initialiser(key, shape, dtype);
  if (isTensor(value) && sameShape(value.shape, shape) && value.dtype === dtype) return value;
  throw new HeddleError("option", `init.${name} must make ${formatType({ shape, dtype })}, but made ${shown(value)}`, {
    ...(typeof value === "function"
      ? { hint: "call it: nn.init.zeros() is an initialiser, nn.init.zeros makes one" }
      : {}),
  });
}

/**
 * PyTorch's default for linear and convolution layers, weight and bias alike: uniform in ±1/sqrt(fanIn). (It calls that
 * `kaiming_uniform_` with `a = sqrt(5)`.)
 *
 * @param fanIn inputs that feed one output
 */
export function uniformByFanIn(key: Tensor, shape: Shape, fanIn: number, dtype: DType): Tensor {
  checkNumber("uniformByFanIn", "fanIn", fanIn, 0);
  return uniformWithin(fanIn === 0 ? 0 : 1 / Math.sqrt(fanIn))(key, shape, dtype);
}

const uniformWithin =
  (bound: number): Initialiser =>
  (key, shape, dtype) =>
    random.uniform(key, shape, { min: -bound, max: bound, dtype });

/** All the same value. */
export function constant(value: number): Initialiser {
  checkNumber("init.constant", "value", value);
  return (_key, shape, dtype) => full(shape, value, { dtype });
}

/** All 0. */
export const zeros = (): Initialiser => constant(0);

/** All 1. */
export const ones = (): Initialiser => constant(1);

/** Uniform in [min, max), by default [0, 1). */
export function uniform(options: { readonly min?: number; readonly max?: number } = {}): Initialiser {
  checkOptions("init.uniform", options, ["min", "max"]);
  const { min = 0, max = 1 } = options;
  checkNumber("init.uniform", "min", min);
  checkNumber("init.uniform", "max", max, min);
  return (key, shape, dtype) => random.uniform(key, shape, { min, max, dtype });
}

/** Options of normal distributions. */
export interface NormalOptions {
  /** Default 0. */
  readonly mean?: number;
  /** Standard deviation; default 1. */
  readonly std?: number;
}

/** Normal, by default with mean 0 and standard deviation 1. */
export function normal(options: NormalOptions = {}): Initialiser {
  checkOptions("init.normal", options, ["mean", "std"]);
  const { mean = 0, std = 1 } = options;
  checkNumber("init.normal", "mean", mean);
  checkNumber("init.normal", "std", std, 0);
  return (key, shape, dtype) => random.normal(key, shape, { dtype }).mul(std).add(mean);
}

/**
 * Normal, but within `[min, max]`, by default [-2, 2] (of the values, not in standard deviations), by the inverse of the
 * distribution function: exact to seven digits, or to the dtype's precision if both bounds are beyond three standard deviations on the
 * same side.
 */
export function truncatedNormal(
  options: NormalOptions & { readonly min?: number; readonly max?: number } = {},
): Initialiser {
  checkOptions("init.truncatedNormal", options, ["mean", "std", "min", "max"]);
  const { mean = 0, std = 1, min = -2, max = 2 } = options;
  checkNumber("init.truncatedNormal", "mean", mean);
  checkNumber("init.truncatedNormal", "std", std, Number.MIN_VALUE);
  checkNumber("init.truncatedNormal", "min", min);
  checkNumber("init.truncatedNormal", "max", max, min);
  const [low, high] = [min, max].map((bound) => (bound - mean) / std) as [number, number];
  return (key, shape, dtype) => {
    // In 16 bits the inverse would be infinite near its ends.
    const computed = isHalf(dtype) ? "f32" : dtype;
    const value =
      low >= TAIL
        ? beyond(random.uniform(key, shape, { dtype: computed }), low, high)
            .mul(std)
            .add(min)
        : high <= -TAIL
          ? beyond(random.uniform(key, shape, { dtype: computed }), -high, -low)
              .mul(-std)
              .add(max)
          : inverseErf(
              random.uniform(key, shape, {
                min: erf(low * Math.SQRT1_2),
                max: erf(high * Math.SQRT1_2),
                dtype: computed,
              }),
            )
              .mul(std * Math.SQRT2)
              .add(mean);
    return minimum(maximum(value.cast(dtype), min), max);
  };
}

// Giles, "Approximating the erfinv function", 2010, table 5 (single precision).
const central = [
  2.81022636e-8, 3.43273939e-7, -3.5233877e-6, -4.39150654e-6, 0.00021858087, -0.00125372503, -0.00417768164,
  0.246640727, 1.50140941,
];
const tail = [
  -0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613, 0.00943887047,
  1.00167406, 2.83297682,
];

/** The inverse of the error function to seven digits, for numbers in (-1, 1); nearer to the ends it is constant. */
export function inverseErf(x: Tensor): Tensor {
  const largest = 1 - 2 ** -24;
  const clamped = minimum(maximum(x, -largest), largest);
  const w = clamped.neg().add(1).mul(clamped.add(1)).log().neg();
  const polynomial = (coefficients: readonly number[], argument: Tensor): Tensor =>
    coefficients
      .slice(1)
      .reduce((sum, next) => sum.mul(argument).add(next), argument.mul(0).add(coefficients[0] as number));
  const far = w.ge(5);
  const near = polynomial(central, select(far, 0, w).sub(2.5));
  return select(far, polynomial(tail, select(far, w, 9).sqrt().sub(3)), near).mul(clamped);
}

/** The number of inputs of one output, and of outputs of one input, of a weight `[out, in, …kernel]`. */
export function fans(shape: Shape): { readonly fanIn: number; readonly fanOut: number } {
  if (shape.length < 2)
    throw new HeddleError("shape", `init: a weight ${formatShape(shape)} has no fan in and out: it needs two dims`);
  const [out, inputs, ...kernel] = shape as [number, number, ...number[]];
  const field = sizeOf(kernel);
  return { fanIn: inputs * field, fanOut: out * field };
}

/** An activation that follows a layer. */
export type Nonlinearity = "linear" | "sigmoid" | "tanh" | "relu" | "leakyRelu" | "selu";

/** The factor of weights before an activation, as PyTorch's `calculate_gain`; `slope` (default 0.01) is for `leakyRelu`. */
export function gainOf(nonlinearity: Nonlinearity, slope = 0.01): number {
  checkNumber("gainOf", "slope", slope);
  const gains: { readonly [Name in Nonlinearity]: number } = {
    linear: 1,
    sigmoid: 1,
    tanh: 5 / 3,
    relu: Math.SQRT2,
    leakyRelu: Math.sqrt(2 / (1 + slope ** 2)),
    selu: 3 / 4,
  };
  const gain = gains[nonlinearity];
  if (gain !== undefined) return gain;
  throw new HeddleError("option", `init: nonlinearity must be ${Object.keys(gains).join(", ")}, got ${nonlinearity}`);
}

/** Options of {@link xavierUniform} and {@link xavierNormal}. */
export interface XavierOptions {
  /** Default 1; see {@link gainOf}. */
  readonly gain?: number;
}

/** Keeps the variance in the forward and backward pass (Glorot and Bengio, 2010): standard deviation `gain · √(2 / (in + out))`. */
function xavier(name: string, options: XavierOptions, draw: (std: number) => Initialiser): Initialiser {
  checkOptions(name, options, ["gain"]);
  const { gain = 1 } = options;
  checkNumber(name, "gain", gain, 0);
  return (key, shape, dtype) => {
    const { fanIn, fanOut } = fans(shape);
    return draw(gain * Math.sqrt(2 / Math.max(1, fanIn + fanOut)))(key, shape, dtype);
  };
}

const uniformOf = (std: number): Initialiser => uniformWithin(Math.sqrt(3) * std);
const normalOf = (std: number): Initialiser => normal({ std });

/** Uniform within `±gain · √(6 / (fanIn + fanOut))` (Glorot and Bengio, 2010). Weights `[out, in, …kernel]`. */
export const xavierUniform = (options: XavierOptions = {}): Initialiser =>
  xavier("init.xavierUniform", options, uniformOf);

/** Normal with standard deviation `gain · √(2 / (fanIn + fanOut))` (Glorot and Bengio, 2010). Weights `[out, in, …kernel]`. */
export const xavierNormal = (options: XavierOptions = {}): Initialiser =>
  xavier("init.xavierNormal", options, normalOf);

/** Options of {@link kaimingUniform} and {@link kaimingNormal}. */
export interface KaimingOptions {
  /** Keep the variance of the forward pass (default) or of the backward pass. */
  readonly mode?: "fanIn" | "fanOut";
  /** Default `"leakyRelu"`. */
  readonly nonlinearity?: Nonlinearity;
  /** Slope of `leakyRelu` below 0; default 0, which is `relu`. */
  readonly slope?: number;
}

function kaiming(name: string, options: KaimingOptions, draw: (std: number) => Initialiser): Initialiser {
  checkOptions(name, options, ["mode", "nonlinearity", "slope"]);
  const { mode = "fanIn", nonlinearity = "leakyRelu", slope = 0 } = options;
  if (mode !== "fanIn" && mode !== "fanOut")
    throw new HeddleError("option", `${name}: mode must be fanIn or fanOut, got ${String(mode)}`);
  checkNumber(name, "slope", slope);
  const gain = gainOf(nonlinearity, slope);
  return (key, shape, dtype) => draw(gain / Math.sqrt(Math.max(1, fans(shape)[mode])))(key, shape, dtype);
}

/** Uniform within `±gain · √(3 / fan)` (He et al., 2015). Weights `[out, in, …kernel]`. */
export const kaimingUniform = (options: KaimingOptions = {}): Initialiser =>
  kaiming("init.kaimingUniform", options, uniformOf);

/** Normal with standard deviation `gain / √fan` (He et al., 2015). Weights `[out, in, …kernel]`. */
export const kaimingNormal = (options: KaimingOptions = {}): Initialiser =>
  kaiming("init.kaimingNormal", options, normalOf);

/** 1 on the diagonal of a matrix, else 0. */
export const eye = (): Initialiser => (_key, shape, dtype) => {
  if (shape.length !== 2) throw new HeddleError("shape", `init.eye: makes matrices, not ${formatShape(shape)}`);
  return identity(shape[0] as number, shape[1] as number, dtype);
};

const identity = (rows: number, columns: number, dtype: DType): Tensor =>
  arange(rows).reshape([rows, 1]).eq(arange(columns)).cast(dtype);

/** The identity of convolutions `[out, in, …kernel]`: 1 in the middle of the kernel from channel i to channel i, else 0. */
export const dirac = (): Initialiser => (_key, shape, dtype) => {
  fans(shape);
  const [out, inputs, ...kernel] = shape as [number, number, ...number[]];
  const middle = identity(out, inputs, dtype).reshape([out, inputs, ...kernel.map(() => 1)]);
  const padding = kernel.map((size): [number, number] => [Math.floor(size / 2), size - 1 - Math.floor(size / 2)]);
  return pad(middle, [[0, 0], [0, 0], ...padding]);
};

/**
 * Orthogonal rows or, where there are more rows than columns, columns (Saxe et al., 2013), times `gain` (default 1): all dims
 * but the first count as columns. Normal vectors are made orthogonal one after the other, twice each (Giraud et al., 2005), in
 * f64; all such matrices are equally likely.
 */
export function orthogonal(options: { readonly gain?: number } = {}): Initialiser {
  checkOptions("init.orthogonal", options, ["gain"]);
  const { gain = 1 } = options;
  checkNumber("init.orthogonal", "gain", gain);
  return (key, shape, dtype) => {
    fans(shape);
    const [rows, columns] = [shape[0] as number, sizeOf(shape.slice(1))];
    const [count, length] = [Math.min(rows, columns), Math.max(rows, columns)];
    const basis = orthonormal(random.normal(key, [count, length], { dtype: "f64" }));
    return (rows <= columns ? basis : basis.transpose()).mul(gain).cast(dtype).reshape(shape);
  };
}

/** Orthogonal rows of length 1 with the same span. */
function orthonormal(vectors: Tensor): Tensor {
  const [count, length] = vectors.shape as [number, number];
  const rows = arange(count).reshape([count, 1]);
  const [basis] = scan(
    (basisSoFar: Tensor, vector: Tensor, index: Tensor): [Tensor, Record<string, never>] => {
      const orthogonalised = (x: Tensor): Tensor => x.sub(basisSoFar.matmul(x).matmul(basisSoFar));
      const residual = orthogonalised(orthogonalised(vector));
      const unit = residual.div(residual.mul(residual).sum().sqrt());
      return [select(rows.eq(index), unit.reshape([1, length]), basisSoFar), {}];
    },
    zerosOf([count, length], { dtype: "f64" }),
    vectors,
  );
  return basis;
}
