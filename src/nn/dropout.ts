/** @module Dropout. */

import { random, select, type Tensor, zerosLike } from "../functions/index.ts";
import { isFloat } from "../ir/dtype.ts";
import { formatType, type TensorType } from "../ir/shape.ts";
import { HeddleError } from "../util/errors.ts";
import { checkNumber } from "../util/options.ts";
import { type ApplyOptions, type Layer, madeBy, type NoTensors, positioned, scopeKey } from "./layer.ts";

/**
 * While training, sets each element to 0 with probability `rate` and scales the others by 1 / (1 - rate); otherwise it is
 * the identity. Which elements are dropped depends only on the key and their position in the global batch, not on the number of workers
 * or the dtype.
 *
 * @throws HeddleError `option` when `rate` is not in [0, 1]; `key` when it is applied for training without a key.
 */
export function dropout(rate: number): Layer<NoTensors> {
  return madeBy(
    dropping("dropout", rate, (x, key) => {
      return select(random.bernoulli(key, 1 - rate, x.shape), x.mul(1 / (1 - rate)), 0);
    }),
    "dropout",
    rate,
  );
}

/** A layer that drops parts of its input while training, by a key of its own, and is the identity otherwise. */
function dropping(
  kind: string,
  rate: number,
  drop: (x: Tensor, key: Tensor) => Tensor,
  check: (input: TensorType) => void = () => undefined,
): Layer<NoTensors> {
  checkNumber(kind, "rate", rate, 0, 1);
  return positioned({
    kind,
    init(_key, input) {
      if (!isFloat(input.dtype)) throw new HeddleError("dtype", `takes floats, got ${formatType(input)}`);
      check(input);
      return { params: {}, state: {}, output: input };
    },
    apply(_variables, x, options = {}) {
      check(x);
      if (options.train !== true || rate === 0) return { y: x, state: {} };
      // With rate 1 all elements are 0; 0 times an infinity would be NaN.
      return { y: rate === 1 ? zerosLike(x) : drop(x, keyOf(options)), state: {} };
    },
  });
}

/** The key of a layer's random numbers. @throws HeddleError `key` without a key. */
export function keyOf(options: ApplyOptions): Tensor {
  if (options.key !== undefined) return scopeKey(options.key, 0);
  throw new HeddleError("key", "draws while training and needs a random key", {
    hint: "apply(variables, x, { train: true, key: random.key(seed) })",
  });
}

/** Drops whole channels of `[batch, channels, …]` with `rank` spatial dims. */
function channelDropout(kind: string, rate: number, rank: number): Layer<NoTensors> {
  const names = ["length", "height, width", "depth, height, width"][rank - 1];
  return dropping(
    kind,
    rate,
    (x, key) => {
      const shape = x.shape.map((size, dim) => (dim < 2 ? size : 1));
      return select(random.bernoulli(key, 1 - rate, shape), x.mul(1 / (1 - rate)), 0);
    },
    (input) => {
      if (input.shape.length !== rank + 2)
        throw new HeddleError("shape", `takes [batch, channels, ${names}], got ${formatType(input)}`);
    },
  );
}

/** While training, sets whole channels of `[batch, channels, length]` to 0 with probability `rate` (Tompson et al., 2015); otherwise like {@link dropout}. */
export const dropout1d = (rate: number): Layer<NoTensors> =>
  madeBy(channelDropout("dropout1d", rate, 1), "dropout1d", rate);

/** While training, sets whole channels of `[batch, channels, height, width]` to 0 with probability `rate`; otherwise like {@link dropout}. */
export const dropout2d = (rate: number): Layer<NoTensors> =>
  madeBy(channelDropout("dropout2d", rate, 2), "dropout2d", rate);

/** While training, sets whole channels of `[batch, channels, depth, height, width]` to 0 with probability `rate`; otherwise like {@link dropout}. */
export const dropout3d = (rate: number): Layer<NoTensors> =>
  madeBy(channelDropout("dropout3d", rate, 3), "dropout3d", rate);

// The limit of selu at -∞: -scale · alpha.
const seluLowest = -1.7580993408473766;

/**
 * Dropout that keeps mean 0 and variance 1 of the outputs of `selu` (Klambauer et al., 2017): dropped elements become `selu`'s lowest
 * value, then all are scaled and shifted.
 *
 * @throws HeddleError `option` when `rate` is not in [0, 1]; `key` when it is applied for training without a key
 */
export function alphaDropout(rate: number): Layer<NoTensors> {
  return madeBy(
    dropping("alphaDropout", rate, (x, key) => {
      const scale = ((1 - rate) * (1 + rate * seluLowest ** 2)) ** -0.5;
      const mask = random.bernoulli(key, 1 - rate, x.shape);
      return select(mask, x, seluLowest)
        .mul(scale)
        .add(-scale * rate * seluLowest);
    }),
    "alphaDropout",
    rate,
  );
}
