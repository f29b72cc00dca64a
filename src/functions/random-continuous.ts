/** @module Random floats of distributions that are made of uniform and normal ones. What is for 16-bit floats is drawn in f32 and rounded. */

import { isFloat, isHalf } from "../ir/dtype.ts";
import { broadcastShapes, formatShape, formatType, type Shape, sameShape } from "../ir/shape.ts";
import * as ops from "../ops/index.ts";
import { checkShape } from "../tensor/arguments.ts";
import { whileLoop } from "../tensor/control.ts";
import { traced } from "../tensor/nested.ts";
import { isTensor, operate, type Tensor } from "../tensor/tensor.ts";
import { HeddleError, within } from "../util/errors.ts";
import { checkNumber } from "../util/options.ts";
import { shown } from "../util/show.ts";
import { full, zeros } from "./create.ts";
import { select } from "./functions.ts";
import { all, and, log, log1p, minimum, or, rsqrt, sigmoid, softmax, tan } from "./methods/index.ts";
import { checkFloats, checkKey, type FloatOptions, foldIn, normal, uniform } from "./random-uniform.ts";

type Wide = "f32" | "f64";

/** Draws in f32 or f64 as one program, rounded to the dtype that is asked for. */
function drawn(name: string, from: Tensor, shape: Shape, options: FloatOptions, draw: (dtype: Wide) => Tensor): Tensor {
  const what = `random.${name}`;
  checkKey(what, from);
  checkFloats(what, shape, options);
  const { dtype = "f32" } = options;
  return within(what, () => traced(what, () => draw(isHalf(dtype) ? "f32" : (dtype as Wide)).cast(dtype)));
}

/** Uniform numbers in (0, 1): in the place of 0 half of the step between them. */
const inside = (from: Tensor, shape: Shape, dtype: Wide): Tensor =>
  uniform(from, shape, { dtype }).maximum(dtype === "f64" ? 2 ** -54 : 2 ** -25);

/** Numbers of a distribution that is symmetric around 0: `upper` gives what the share `tail` in (0, 1/2] lies above. */
function symmetric(from: Tensor, shape: Shape, dtype: Wide, upper: (tail: Tensor) => Tensor): Tensor {
  const u = inside(from, shape, dtype);
  const above = upper(minimum(u, u.neg().add(1)));
  return select(u.lt(0.5), above.neg(), above);
}

/** Numbers of the exponential distribution with mean 1, from 0 on: `-log(1 - u)`; over a rate it is that of the rate. */
export const exponential = (from: Tensor, shape: Shape, options: FloatOptions = {}): Tensor =>
  drawn("exponential", from, shape, options, (dtype) => log1p(uniform(from, shape, { dtype }).neg()).neg());

/** Numbers of the standard Gumbel distribution, `-log(-log(u))`: how the largest of many exponential ones is spread. All are finite. */
export const gumbel = (from: Tensor, shape: Shape, options: FloatOptions = {}): Tensor =>
  drawn("gumbel", from, shape, options, (dtype) => log(log(inside(from, shape, dtype)).neg()).neg());

/** Numbers of the Laplace distribution with mean 0 and scale 1, of density `exp(-|x|) / 2`. */
export const laplace = (from: Tensor, shape: Shape, options: FloatOptions = {}): Tensor =>
  drawn("laplace", from, shape, options, (dtype) => symmetric(from, shape, dtype, (tail) => log(tail.mul(2)).neg()));

/** Numbers of the logistic distribution with mean 0 and scale 1, whose distribution function is the sigmoid. */
export const logistic = (from: Tensor, shape: Shape, options: FloatOptions = {}): Tensor =>
  drawn("logistic", from, shape, options, (dtype) =>
    symmetric(from, shape, dtype, (tail) => log1p(tail.neg()).sub(log(tail))),
  );

/** Numbers of the Cauchy distribution with median 0 and scale 1, which has no mean. */
export const cauchy = (from: Tensor, shape: Shape, options: FloatOptions = {}): Tensor =>
  drawn("cauchy", from, shape, options, (dtype) =>
    symmetric(from, shape, dtype, (tail) => full([], 1, { dtype }).div(tan(tail.mul(Math.PI)))),
  );

/** Refuses what is no shape parameter of draws of this shape. */
function checkParameter(what: string, name: string, value: Tensor | number, shape: Shape): void {
  if (!isTensor(value)) {
    checkNumber(what, name, value, 0);
    return;
  }
  if (!isFloat(value.dtype))
    throw new HeddleError("dtype", `${what}: ${name} must be floats, got ${formatType(value)}`);
  const joined = broadcastShapes(value.shape, shape);
  if (joined === undefined || !sameShape(joined, shape))
    throw new HeddleError("shape", `${what}: ${name} ${formatType(value)} does not broadcast to ${formatShape(shape)}`);
}

/** The dtype of the result: that which is asked for, else of the first parameter that is a tensor, else f32. */
const withDType = (options: FloatOptions, ...parameters: readonly (Tensor | number)[]): FloatOptions => {
  const dtype = options.dtype ?? parameters.filter(isTensor).find((one) => isFloat(one.dtype))?.dtype;
  return dtype === undefined ? options : { ...options, dtype };
};

/** What has no derivative by a shape parameter: that of what is proposed and refused is not that of the distribution. */
const held = (x: Tensor): Tensor =>
  operate("refuseGradient", ops.refuseGradient, [x], "gamma variables have no derivative by their shape here");

interface GammaParts {
  /** Of the gamma distribution with shape `a`, or `a + 1` where `a` is below 1. */
  readonly value: Tensor;
  /** The logarithm of what to multiply by. */
  readonly boost: Tensor;
}

/**
 * Marsaglia and Tsang, "A simple method for generating gamma variables", 2000. All elements are drawn again until the last one is
 * accepted (at least 95 of 100 are, each time); one that is accepted stays. Shapes that no number is of (0, infinite, NaN) are their
 * own logarithm's exponential: 0, infinite, NaN.
 */
function gammaParts(from: Tensor, given: Tensor | number, shape: Shape, dtype: Wide): GammaParts {
  const a = (isTensor(given) ? given.cast(dtype) : full([], given, { dtype })).broadcastTo(shape);
  const usable = and(a.gt(0), a.lt(Infinity));
  const own = select(usable, a, 1);
  const small = own.lt(1);
  const d = select(small, own.add(1), own).sub(1 / 3);
  const c = rsqrt(d.mul(9));
  const [key, boostKey] = [foldIn(from, 0), foldIn(from, 1)];
  const propose = (): { readonly value: Tensor; readonly accepted: Tensor } => {
    const x = normal(foldIn(key, 0), shape, { dtype });
    // (1 + cx)³ - 1, so that nothing is lost where d is large.
    const step = c.mul(x);
    const growth = step.mul(step.mul(step.add(3)).add(3));
    const positive = step.gt(-1);
    const safe = select(positive, growth, 0);
    const bound = x
      .mul(x)
      .mul(0.5)
      .add(d.mul(log1p(safe).sub(safe)));
    const accepted = and(positive, log(inside(foldIn(key, 1), shape, dtype)).lt(bound));
    return { value: d.mul(safe.add(1)), accepted };
  };
  const { value } = whileLoop(
    ({ done }) => all(done).not(),
    (carry) => {
      const { value, accepted } = propose();
      return { value: select(carry.done, carry.value, value), done: or(carry.done, accepted) };
    },
    { value: zeros(shape, { dtype }), done: zeros(shape, { dtype: "bool" }) },
  );
  const boost = select(small, log(inside(boostKey, shape, dtype)).div(own), 0);
  return { value: held(select(usable, value, 1)), boost: held(select(usable, boost, log(a))) };
}

/** The logarithm of a gamma variable, which is finite where the variable itself is too small for the dtype. */
function logGamma(from: Tensor, a: Tensor | number, shape: Shape, dtype: Wide): Tensor {
  const { value, boost } = gammaParts(from, a, shape, dtype);
  return log(value).add(boost);
}

/**
 * Numbers of the gamma distribution with shape `a` and scale 1 (Marsaglia and Tsang, 2000; below 1 by that of `a + 1`). Times a scale
 * it is that of the scale. 0 gives 0; a tensor's infinite shapes give Infinity, negative ones and NaN give NaN. There is no gradient by
 * `a`: its distribution function has none here, and asking for one is an error.
 *
 * @param a a number from 0 on, or floats that broadcast to the shape; their dtype is the result's, where no other is asked for
 * @throws HeddleError `option` for a number below 0 or not finite; `shape` or `dtype` for a tensor that does not fit
 */
export function gamma(from: Tensor, a: Tensor | number, shape: Shape, options: FloatOptions = {}): Tensor {
  const own = withDType(options, a);
  checkFloats("random.gamma", shape, own);
  checkParameter("random.gamma", "a", a, shape);
  return drawn("gamma", from, shape, own, (dtype) => {
    const { value, boost } = gammaParts(from, a, shape, dtype);
    return value.mul(boost.exp());
  });
}

/**
 * Numbers of the beta distribution with shapes `a` and `b`, in [0, 1]: the share that one gamma variable is of two, by their
 * logarithms, so that small shapes give no 0 over 0. Parameters, dtype and errors as {@link gamma}.
 */
export function beta(
  from: Tensor,
  a: Tensor | number,
  b: Tensor | number,
  shape: Shape,
  options: FloatOptions = {},
): Tensor {
  const own = withDType(options, a, b);
  checkKey("random.beta", from);
  checkFloats("random.beta", shape, own);
  checkParameter("random.beta", "a", a, shape);
  checkParameter("random.beta", "b", b, shape);
  return drawn("beta", from, shape, own, (dtype) =>
    sigmoid(logGamma(foldIn(from, 0), a, shape, dtype).sub(logGamma(foldIn(from, 1), b, shape, dtype))),
  );
}

/**
 * Points of the Dirichlet distribution: numbers from 0 on along the last dim, which sum to 1. Errors as {@link gamma}.
 *
 * @param alpha floats `[…, k]` above 0
 * @param shape of the result without its last dim; `alpha` broadcasts to `[...shape, k]`. Default: `alpha`'s own
 * @returns `[...shape, k]`, of `alpha`'s dtype unless another is asked for
 */
export function dirichlet(from: Tensor, alpha: Tensor, shape?: Shape, options: FloatOptions = {}): Tensor {
  const what = "random.dirichlet";
  const last = isTensor(alpha) ? alpha.shape.at(-1) : undefined;
  if (last === undefined)
    throw new HeddleError("argument", `${what}: alpha must be a tensor […, k], got ${shown(alpha)}`);
  if (shape !== undefined) checkShape(what, shape);
  const whole = [...(shape ?? alpha.shape.slice(0, -1)), last];
  const own = withDType(options, alpha);
  checkKey(what, from);
  checkFloats(what, whole, own);
  checkParameter(what, "alpha", alpha, whole);
  return drawn("dirichlet", from, whole, own, (dtype) => softmax(logGamma(from, alpha, whole, dtype)));
}
