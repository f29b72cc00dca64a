/** @module Activation functions as layers, and other layers without variables. `functional.ts` has the functions. */

import { evalShape, full, type Tensor } from "../functions/index.ts";
import { isFloat } from "../ir/dtype.ts";
import { formatType } from "../ir/shape.ts";
import { HeddleError } from "../util/errors.ts";
import { checkInteger, checkNumber, checkOptions } from "../util/options.ts";
import { keyOf } from "./dropout.ts";
import * as functional from "./functional.ts";
import { activation, type Layer, madeBy, type NoTensors, positioned } from "./layer.ts";

type Options<Name extends keyof typeof functional> = Extract<Parameters<(typeof functional)[Name]>[1], object>;

/** A layer of a function with options. The options are checked here, not at the first batch. */
function withOptions<Given extends object>(
  kind: string,
  fn: (x: Tensor, options: Given) => Tensor,
  options: Given,
): Layer<NoTensors> {
  evalShape((x: Tensor) => fn(x, options), { shape: [2], dtype: "f32" });
  return activation((x) => fn(x, options), kind);
}

/** These functions have exponentials that 16 bits cannot hold. */
const wide = { needsRange: true };

/** max(x, 0). */
export const relu = (): Layer<NoTensors> => madeBy(activation(functional.relu, "relu"), "relu");

/** The hyperbolic tangent. */
export const tanh = (): Layer<NoTensors> => madeBy(activation(functional.tanh, "tanh"), "tanh");

/** 1 / (1 + exp(-x)). */
export const sigmoid = (): Layer<NoTensors> => madeBy(activation(functional.sigmoid, "sigmoid", wide), "sigmoid");

/** x · Φ(x), exact with the error function, or by tanh with `{ approximate: "tanh" }`. */
export const gelu = (options: functional.GeluOptions = {}): Layer<NoTensors> =>
  madeBy(withOptions("gelu", functional.gelu, options), "gelu", options);

/** `alpha · (exp(x) - 1)` up to 0; alpha is 1 by default. */
export const elu = (options: Options<"elu"> = {}): Layer<NoTensors> =>
  madeBy(withOptions("elu", functional.elu, options), "elu", options);

/** `elu` that keeps mean 0 and variance 1. */
export const selu = (): Layer<NoTensors> => madeBy(activation(functional.selu, "selu"), "selu");

/** `alpha · (exp(x / alpha) - 1)` up to 0; alpha is 1 by default. */
export const celu = (options: Options<"celu"> = {}): Layer<NoTensors> =>
  madeBy(withOptions("celu", functional.celu, options), "celu", options);

/** x · sigmoid(x), also called swish. */
export const silu = (): Layer<NoTensors> => madeBy(activation(functional.silu, "silu"), "silu");

/** x · tanh(softplus(x)). */
export const mish = (): Layer<NoTensors> => madeBy(activation(functional.mish, "mish"), "mish");

/** x clamped to `[min, max]`, by default [-1, 1]. */
export const hardtanh = (options: Options<"hardtanh"> = {}): Layer<NoTensors> =>
  madeBy(withOptions("hardtanh", functional.hardtanh, options), "hardtanh", options);

/** min(max(x, 0), 6). */
export const relu6 = (): Layer<NoTensors> => madeBy(activation(functional.relu6, "relu6"), "relu6");

/** relu6(x + 3) / 6. */
export const hardsigmoid = (): Layer<NoTensors> =>
  madeBy(activation(functional.hardsigmoid, "hardsigmoid"), "hardsigmoid");

/** x · relu6(x + 3) / 6. */
export const hardswish = (): Layer<NoTensors> => madeBy(activation(functional.hardswish, "hardswish"), "hardswish");

/** x above 0, `negativeSlope · x` (default 0.01) up to it. */
export const leakyRelu = (options: Options<"leakyRelu"> = {}): Layer<NoTensors> =>
  madeBy(withOptions("leakyRelu", functional.leakyRelu, options), "leakyRelu", options);

/**
 * x above 0, a slope times x up to 0. While training each element has a slope of its own, drawn from `[lower, upper)` (by default 1/8
 * and 1/3); otherwise the slope is their mean (Xu et al., 2015). A drawn slope depends on the key and the element's position in the
 * global batch alone.
 *
 * @throws HeddleError `option` when `upper` is less than `lower`; `key` when it is applied for training without a key
 */
export function rrelu(options: Pick<functional.RreluOptions, "lower" | "upper"> = {}): Layer<NoTensors> {
  checkOptions("rrelu", options, ["lower", "upper"]);
  const { apply, ...layer } = withOptions("rrelu", functional.rrelu, options);
  return madeBy(
    positioned({
      ...layer,
      apply: (variables, x, applyOptions = {}) =>
        applyOptions.train === true
          ? { y: functional.rrelu(x, { ...options, key: keyOf(applyOptions) }), state: {} }
          : apply(variables, x),
    }),
    "rrelu",
    options,
  );
}

/** log(1 + exp(beta · x)) / beta; beta is 1 by default. */
export const softplus = (options: Options<"softplus"> = {}): Layer<NoTensors> =>
  madeBy(withOptions("softplus", functional.softplus, options), "softplus", options);

/** x / (1 + |x|). */
export const softsign = (): Layer<NoTensors> => madeBy(activation(functional.softsign, "softsign"), "softsign");

/** x moved towards 0 by `lambda`, by default 0.5. */
export const softshrink = (options: Options<"softshrink"> = {}): Layer<NoTensors> =>
  madeBy(withOptions("softshrink", functional.softshrink, options), "softshrink", options);

/** x, but 0 where it is within `lambda` of 0, by default 0.5. */
export const hardshrink = (options: Options<"hardshrink"> = {}): Layer<NoTensors> =>
  madeBy(withOptions("hardshrink", functional.hardshrink, options), "hardshrink", options);

/** x - tanh(x). */
export const tanhshrink = (): Layer<NoTensors> => madeBy(activation(functional.tanhshrink, "tanhshrink"), "tanhshrink");

/** x above `threshold`, else `value`. */
export const threshold = (options: Options<"threshold">): Layer<NoTensors> =>
  madeBy(withOptions("threshold", functional.threshold, options), "threshold", options);

/** log(sigmoid(x)). */
export const logSigmoid = (): Layer<NoTensors> =>
  madeBy(activation(functional.logSigmoid, "logSigmoid", wide), "logSigmoid");

/** exp(x) / sum(exp(x)) over a dim, by default the last. */
export const softmax = (dim = -1): Layer<NoTensors> =>
  madeBy(
    activation((x) => functional.softmax(x, dim), "softmax", wide),
    "softmax",
    dim,
  );

/** `softmax` over the channels of images `[batch, channels, height, width]`, or of one image `[channels, height, width]`, at each pixel. */
export const softmax2d = (): Layer<NoTensors> =>
  madeBy(
    activation(
      (x) => {
        if (x.shape.length !== 3 && x.shape.length !== 4)
          throw new HeddleError("shape", `takes [batch, channels, height, width], got ${formatType(x)}`);
        return functional.softmax(x, -3);
      },
      "softmax2d",
      wide,
    ),
    "softmax2d",
  );

/** The logarithm of `softmax` over a dim, by default the last. */
export const logSoftmax = (dim = -1): Layer<NoTensors> =>
  madeBy(
    activation((x) => functional.logSoftmax(x, dim), "logSoftmax", wide),
    "logSoftmax",
    dim,
  );

/** The softmax of -x over a dim, by default the last. */
export const softmin = (dim = -1): Layer<NoTensors> =>
  madeBy(
    activation((x) => functional.softmin(x, dim), "softmin", wide),
    "softmin",
    dim,
  );

/** The first half of a dim (by default the last) times the sigmoid of the second. */
export const glu = (dim = -1): Layer<NoTensors> =>
  madeBy(
    activation((x) => functional.glu(x, dim), "glu"),
    "glu",
    dim,
  );

/** Options of {@link prelu}. */
export interface PreluOptions {
  /** 1 (default), or the size of dim 1: a slope for each. */
  readonly count?: number;
  /** Initial slope; default 0.25. */
  readonly initial?: number;
}

/** x above 0, a learned slope times x up to it (He et al., 2015). Parameter `weight` `[count]` in the dtype of the input. */
export function prelu(options: PreluOptions = {}): Layer<{ readonly weight: Tensor }> {
  checkOptions("prelu", options, ["count", "initial"]);
  const { count = 1, initial = 0.25 } = options;
  checkInteger("prelu", "count", count, 1);
  checkNumber("prelu", "initial", initial);
  return madeBy(
    positioned({
      kind: "prelu",
      init(_key, input) {
        if (!isFloat(input.dtype)) throw new HeddleError("dtype", `takes floats, got ${formatType(input)}`);
        if (count !== 1 && input.shape[1] !== count)
          throw new HeddleError("shape", `has ${count} slopes, which do not fit dim 1 of ${formatType(input)}`);
        return { params: { weight: full([count], initial, { dtype: input.dtype }) }, state: {}, output: input };
      },
      apply: ({ params }, x) => ({ y: functional.prelu(x, params.weight), state: {} }),
    }),
    "prelu",
    options,
  );
}

/** Merges all dims but the first: `[batch, …]` to `[batch, n]`. */
export function flatten(): Layer<NoTensors> {
  return madeBy(
    positioned({
      kind: "flatten",
      init(_key, input) {
        const [batch, ...rest] = input.shape;
        if (batch === undefined)
          throw new HeddleError("shape", `takes [batch, …], got the scalar ${formatType(input)}`);
        const size = rest.reduce((product, dim) => product * dim, 1);
        return { params: {}, state: {}, output: { dtype: input.dtype, shape: [batch, size] } };
      },
      apply: (_variables, x) => {
        const [batch, ...rest] = x.shape;
        const size = rest.reduce((product, dim) => product * dim, 1);
        return { y: x.reshape([batch as number, size]), state: {} };
      },
    }),
    "flatten",
  );
}
