/** @module Optimizers by name, with the defaults that Keras has for them; Heddle's own functions have PyTorch's. */

import { HeddleError, shown } from "../../extend/index.ts";
import * as optim from "../../optim/index.ts";
import { named } from "./names.ts";

const rate = { learningRate: 0.001 };
const exact = { ...rate, epsilon: 1e-7 };

const table = {
  sgd: () => optim.sgd({ learningRate: 0.01 }),
  adam: () => optim.adam(exact),
  adamW: () => optim.adamW({ ...exact, weightDecay: 0.004 }),
  adamax: () => optim.adamax(exact),
  nAdam: () => optim.nAdam({ ...exact, momentumDecay: 1 }),
  rmsProp: () => optim.rmsProp({ ...exact, alpha: 0.9 }),
  adagrad: () => optim.adagrad({ ...exact, initialAccumulator: 0.1 }),
  adadelta: () => optim.adadelta({ ...exact, rho: 0.95 }),
  lion: () => optim.lion(rate),
  lamb: () => optim.lamb(exact),
  ftrl: () => optim.ftrl({ ...rate, initialAccumulator: 0.1, beta: 0 }),
} satisfies { readonly [name: string]: () => optim.Optimizer };

/** The names that `compile` knows. */
export type OptimizerName = keyof typeof table;

/** @throws HeddleError `option` for what is neither an optimizer nor a name of one. */
export function optimizerOf(optimizer: optim.Optimizer | string): optim.Optimizer {
  if (typeof optimizer === "string") return named("optimizer", optimizer, table)();
  if (typeof optimizer?.init === "function" && typeof optimizer.update === "function") return optimizer;
  throw new HeddleError("option", `compile: optimizer must be a name or an optimizer, got ${shown(optimizer)}`, {
    hint: 'such as "adam" or optim.adam({ learningRate: 1e-3 })',
  });
}
