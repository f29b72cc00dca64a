/** @module Optimizers: pure update rules over trees of parameters. */
export { type AdamOptions, adam, adamW } from "./adam.ts";
export { type AdagradOptions, adagrad, type RmsPropOptions, rmsProp } from "./adaptive.ts";
export {
  type LearningRate,
  learningRateAt,
  type Optimizer,
  perParameter,
  type Rule,
  type Schedule,
  type StepScalars,
  type Updated,
  type UpdateOptions,
} from "./optimizer.ts";
export { type SgdOptions, sgd } from "./sgd.ts";
