/** @module Random floats of distributions that are computed from uniform and normal numbers. 16-bit floats are drawn in f32 and rounded. */

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

/** Draws in f32 or f64, as one program, and rounds to the dtype of the options. */
function drawn(name: string, from: Tensor, shape: Shape, options: FloatOptions, draw: (dtype: Wide) => Tensor): Tensor {
  const what = `random.${name}`;
  checkKey(what, from);
  checkFloats(what, shape, options);
  const { dtype = "f32" } = options;
  return within(what, () => traced(what, () => draw(isHalf(dtype) ? "f32" : (dtype as Wide)).cast(dtype)));
}

/** Uniform numbers in (0, 1): 0 is replaced by half of the step between numbers. */
const inside = (from: Tensor, shape: Shape, dtype: Wide): Tensor =>
  uniform(from, shape, { dtype }).maximum(dtype === "f64" ? 2 ** -54 : 2 ** -25);

/** Numbers of a distribution that is symmetric around 0: `upper` gives the number that a share `tail` in (0, 1/2] is above. */
function symmetric(from: Tensor, shape: Shape, dtype: Wide, upper: (tail: Tensor) => Tensor): Tensor {
  const u = inside(from, shape, dtype);
  const above = upper(minimum(u, u.neg().add(1)));
  return select(u.lt(0.5), above.neg(), above);
}

/** Numbers of the exponential distribution with mean 1, from 0 on: `-log(1 - u)`; divide by a rate for another rate. */
export const exponential = (from: Tensor, shape: Shape, options: FloatOptions = {}): Tensor =>
  drawn("exponential", from, shape, options, (dtype) => log1p(uniform(from, shape, { dtype }).neg()).neg());

/** Numbers of the standard Gumbel distribution, `-log(-log(u))`: the limit distribution of the largest of many exponential numbers. All are finite. */
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

/** Checks a shape parameter of draws of this shape. */
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

/** The options with the dtype of the result: the option, else the dtype of the first float tensor among the parameters. */
const withDType = (options: FloatOptions, ...parameters: readonly (Tensor | number)[]): FloatOptions => {
  const dtype = options.dtype ?? parameters.filter(isTensor).find((parameter) => isFloat(parameter.dtype))?.dtype;
  return dtype === undefined ? options : { ...options, dtype };
};

/** x without a derivative by a shape parameter: rejection sampling does not give the derivative of the distribution. */
const held = (x: Tensor): Tensor =>
  operate("refuseGradient", ops.refuseGradient, [x], "gamma variables have no derivative by their shape here");

interface GammaParts {
  /** A number of the gamma distribution with shape `a`, or `a + 1` if `a` is below 1. */
  readonly value: Tensor;
  /** The logarithm of the factor of `value`. */
  readonly boost: Tensor;
}

/**
 * Marsaglia and Tsang, "A simple method for generating gamma variables", 2000. All elements are drawn again until the last one is
 * accepted (at least 95 of 100 are, each time); an accepted element stays. Shapes without a distribution (0, infinite, NaN) give
 * exp(log(a)): 0, infinite, NaN.
 */
function gammaParts(from: Tensor, shapes: Tensor | number, shape: Shape, dtype: Wide): GammaParts {
  const a = (isTensor(shapes) ? shapes.cast(dtype) : full([], shapes, { dtype })).broadcastTo(shape);
  const usable = and(a.gt(0), a.lt(Infinity));
  const valid = select(usable, a, 1);
  const small = valid.lt(1);
  const d = select(small, valid.add(1), valid).sub(1 / 3);
  const c = rsqrt(d.mul(9));
  const [key, boostKey] = [foldIn(from, 0), foldIn(from, 1)];
  const propose = (): { readonly value: Tensor; readonly accepted: Tensor } => {
    const x = normal(foldIn(key, 0), shape, { dtype });
    // (1 + cx)³ - 1, which keeps its digits if d is large.
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
  const boost = select(small, log(inside(boostKey, shape, dtype)).div(valid), 0);
  return { value: held(select(usable, value, 1)), boost: held(select(usable, boost, log(a))) };
}

/** The logarithm of a gamma variable, which is finite even if the variable is too small for the dtype. */
function logGamma(from: Tensor, a: Tensor | number, shape: Shape, dtype: Wide): Tensor {
  const { value, boost } = gammaParts(from, a, shape, dtype);
  return log(value).add(boost);
}

/**
 * Numbers of the gamma distribution with shape `a` and scale 1 (Marsaglia and Tsang, 2000; a shape below 1 by that of `a + 1`).
 * Multiply by a scale for another scale. 0 gives 0; in a tensor, infinite shapes give Infinity, negative shapes and NaN give NaN. There
 * is no gradient by `a`; asking for it is an error.
 *
 * @param a a number from 0 on, or floats that broadcast to the shape; their dtype is the default of the result's
 * @throws HeddleError `option` for a number below 0 or not finite; `shape` or `dtype` for a tensor that does not fit
 */
export function gamma(from: Tensor, a: Tensor | number, shape: Shape, options: FloatOptions = {}): Tensor {
  const typed = withDType(options, a);
  checkFloats("random.gamma", shape, typed);
  checkParameter("random.gamma", "a", a, shape);
  return drawn("gamma", from, shape, typed, (dtype) => {
    const { value, boost } = gammaParts(from, a, shape, dtype);
    return value.mul(boost.exp());
  });
}

/**
 * Numbers of the beta distribution with shapes `a` and `b`, in [0, 1]: the share of one gamma variable in the sum of two, by their
 * logarithms, so that small shapes do not give 0 / 0. Parameters, dtype and errors as {@link gamma}.
 */
export function beta(
  from: Tensor,
  a: Tensor | number,
  b: Tensor | number,
  shape: Shape,
  options: FloatOptions = {},
): Tensor {
  const typed = withDType(options, a, b);
  checkKey("random.beta", from);
  checkFloats("random.beta", shape, typed);
  checkParameter("random.beta", "a", a, shape);
  checkParameter("random.beta", "b", b, shape);
  return drawn("beta", from, shape, typed, (dtype) =>
    sigmoid(logGamma(foldIn(from, 0), a, shape, dtype).sub(logGamma(foldIn(from, 1), b, shape, dtype))),
  );
}

/**
 * Points of the Dirichlet distribution: numbers from 0 on along the last dim, which sum to 1. Errors as {@link gamma}.
 *
 * @param alpha floats `[…, k]` above 0
 * @param shape of the result without its last dim; `alpha` broadcasts to `[...shape, k]`. Default: all dims of `alpha` but the last
 * @returns `[...shape, k]`, in the dtype of `alpha`, unless the options name another
 */
export function dirichlet(from: Tensor, alpha: Tensor, shape?: Shape, options: FloatOptions = {}): Tensor {
  const what = "random.dirichlet";
  const last = isTensor(alpha) ? alpha.shape.at(-1) : undefined;
  if (last === undefined)
    throw new HeddleError("argument", `${what}: alpha must be a tensor […, k], got ${shown(alpha)}`);
  if (shape !== undefined) checkShape(what, shape);
  const whole = [...(shape ?? alpha.shape.slice(0, -1)), last];
  const typed = withDType(options, alpha);
  checkKey(what, from);
  checkFloats(what, whole, typed);
  checkParameter(what, "alpha", alpha, whole);
  return drawn("dirichlet", from, whole, typed, (dtype) => softmax(logGamma(from, alpha, whole, dtype)));
}
