/** @module Dropout. */
import { isFloat } from "../ir/dtype.ts";
import { formatType } from "../ir/shape.ts";
import { random, select } from "../tensor/index.ts";
import { HeddleError } from "../util/errors.ts";
import { checkNumber } from "../util/options.ts";
import { type Layer, positioned, scopeKey } from "./layer.ts";

/**
 * While training, sets each element to 0 with probability `rate` and scales the others by 1 / (1 - rate); otherwise the
 * identity. Which elements fall depends on the key and their place in the global batch alone, so neither the number of
 * workers nor the dtype changes them.
 *
 * @throws HeddleError `option` when `rate` is not in [0, 1]; `key` when it is applied for training without a key.
 */
export function dropout(rate: number): Layer {
  checkNumber("dropout", "rate", rate, 0, 1);
  return positioned({
    kind: "dropout",
    init(_key, input) {
      if (!isFloat(input.dtype)) throw new HeddleError("dtype", `takes floats, got ${formatType(input)}`);
      return { params: {}, state: {}, output: input };
    },
    apply(_variables, x, options = {}) {
      if (options.train !== true || rate === 0) return { y: x, state: {} };
      if (options.key === undefined) {
        throw new HeddleError("key", "draws while training and needs a random key", {
          hint: "apply(variables, x, { train: true, key: random.key(seed) })",
        });
      }
      if (rate === 1) return { y: x.mul(0), state: {} };
      const kept = random.bernoulli(scopeKey(options.key, 0), 1 - rate, x.shape);
      return { y: select(kept, x.mul(1 / (1 - rate)), 0), state: {} };
    },
  });
}
