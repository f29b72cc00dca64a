/** @module Optimizers: pure update rules over trees of parameters. */
export { type AdafactorOptions, adafactor } from "./adafactor.ts";
export {
  type AdamOptions,
  adam,
  adamax,
  adamW,
  type BetaOptions,
  lamb,
  lion,
  type NAdamOptions,
  nAdam,
  type RAdamOptions,
  rAdam,
} from "./adam.ts";
export {
  type AdadeltaOptions,
  type AdagradOptions,
  adadelta,
  adagrad,
  type FtrlOptions,
  ftrl,
  type RmsPropOptions,
  type RpropOptions,
  rmsProp,
  rprop,
} from "./adaptive.ts";
export { clipByGlobalNorm, clipByValue, globalNorm, type NormOptions } from "./clip.ts";
export { groups } from "./groups.ts";
export { lazy } from "./lazy.ts";
export { type LbfgsOptions, lbfgs } from "./lbfgs.ts";
export { type MinimizeOptions, type Minimum, minimize } from "./minimize.ts";
export {
  biasCorrection,
  type DecayMask,
  type LearningRate,
  learningRateAt,
  type Optimizer,
  perParameter,
  type Rule,
  type Schedule,
  type StepScalars,
  type Updated,
  type UpdateOptions,
  type WeightDecay,
  weightsOnly,
} from "./optimizer.ts";
export * as schedules from "./schedules.ts";
export { type SgdOptions, sgd } from "./sgd.ts";
