/** @module Adagrad, RMSProp, Adadelta, Rprop, FTRL: a step size for each element. */
import { full, maximum, minimum, select, sign, type Tensor } from "../functions/index.ts";
import { HeddleError } from "../util/errors.ts";
import { checkNumber, checkOptions } from "../util/options.ts";
import {
  averaged,
  commonOptions,
  type LearningRate,
  type Optimizer,
  penalised,
  perParameter,
  type WeightDecay,
} from "./optimizer.ts";

/** Options of {@link adagrad}; `weightDecay` is an L2 penalty. */
export interface AdagradOptions extends LearningRate, WeightDecay {
  /** The learning rate of step t (from 0) is divided by 1 + t · learningRateDecay; default 0. */
  readonly learningRateDecay?: number;
  /** Initial value of the sums of squares; default 0. */
  readonly initialAccumulator?: number;
  /** Added to the root; default 1e-10. */
  readonly epsilon?: number;
}

/** Adagrad (Duchi et al., 2011) as PyTorch: each element's step is divided by the root of the sum of its squared gradients. */
export function adagrad(options: AdagradOptions): Optimizer {
  checkOptions("adagrad", options, [...commonOptions, "learningRateDecay", "initialAccumulator", "epsilon"]);
  const { learningRateDecay = 0, initialAccumulator = 0, epsilon = 1e-10, ...shared } = options;
  checkNumber("adagrad", "learningRateDecay", learningRateDecay, 0);
  checkNumber("adagrad", "initialAccumulator", initialAccumulator, 0);
  checkNumber("adagrad", "epsilon", epsilon, 0);
  return perParameter<"sum">({
    ...shared,
    name: "adagrad",
    slots: ["sum"],
    initial: initialAccumulator,
    apply(raw, parameter, slots, step) {
      const gradient = penalised(raw, parameter, step);
      const sum = slots.sum.add(gradient.mul(gradient));
      const direction = gradient.mul(step.learningRate).div(sum.sqrt().add(epsilon));
      return { parameter: parameter.sub(decayed(direction, learningRateDecay, step.count)), slots: { sum } };
    },
  });
}

function decayed(step: Tensor, decay: number, count: number | Tensor): Tensor {
  if (decay === 0) return step;
  return step.div(typeof count === "number" ? 1 + (count - 1) * decay : count.sub(1).mul(decay).add(1));
}

/** Options of {@link rmsProp}; `weightDecay` is an L2 penalty. */
export interface RmsPropOptions extends LearningRate, WeightDecay {
  /** Decay of the average of squared gradients; default 0.99. */
  readonly alpha?: number;
  /** Default 1e-8. */
  readonly epsilon?: number;
  /** Default 0. */
  readonly momentum?: number;
  /** Divide by the standard deviation instead of the root mean square; default false. */
  readonly centered?: boolean;
}

/** RMSProp (Hinton, 2012) as PyTorch: each element's step is divided by the root of an average of its squared gradients. */
export function rmsProp(options: RmsPropOptions): Optimizer {
  checkOptions("rmsProp", options, [...commonOptions, "alpha", "epsilon", "momentum", "centered"]);
  const { alpha = 0.99, epsilon = 1e-8, momentum = 0, centered = false, ...shared } = options;
  checkNumber("rmsProp", "alpha", alpha, 0);
  checkNumber("rmsProp", "epsilon", epsilon, 0);
  checkNumber("rmsProp", "momentum", momentum, 0);
  type Slot = "squareAvg" | "gradAvg" | "momentumBuffer";
  const slotNames: Slot[] = [
    "squareAvg",
    ...(centered ? (["gradAvg"] as const) : []),
    ...(momentum > 0 ? (["momentumBuffer"] as const) : []),
  ];
  return perParameter<Slot>({
    ...shared,
    name: "rmsProp",
    slots: slotNames,
    apply(raw, parameter, slots, step) {
      const gradient = penalised(raw, parameter, step);
      const squareAvg = averaged(slots.squareAvg, gradient.mul(gradient), alpha);
      const gradAvg = centered ? slots.gradAvg.add(gradient.sub(slots.gradAvg).mul(1 - alpha)) : squareAvg;
      const variance = centered ? squareAvg.sub(gradAvg.mul(gradAvg)) : squareAvg;
      const scaled = gradient.div(variance.sqrt().add(epsilon));
      const momentumBuffer = momentum > 0 ? slots.momentumBuffer.mul(momentum).add(scaled) : scaled;
      return {
        parameter: parameter.sub(momentumBuffer.mul(step.learningRate)),
        slots: { squareAvg, gradAvg, momentumBuffer },
      };
    },
  });
}

/** Options of {@link adadelta}; `weightDecay` is an L2 penalty. */
export interface AdadeltaOptions extends LearningRate, WeightDecay {
  /** Decay of both averages of squares; default 0.9. */
  readonly rho?: number;
  /** Default 1e-6. */
  readonly epsilon?: number;
}

/** Adadelta (Zeiler, 2012) as PyTorch computes it; its usual learning rate is 1. */
export function adadelta(options: AdadeltaOptions): Optimizer {
  checkOptions("adadelta", options, [...commonOptions, "rho", "epsilon"]);
  const { rho = 0.9, epsilon = 1e-6, ...shared } = options;
  checkNumber("adadelta", "rho", rho, 0, 1);
  checkNumber("adadelta", "epsilon", epsilon, 0);
  return perParameter<"squareAvg" | "accDelta">({
    ...shared,
    name: "adadelta",
    slots: ["squareAvg", "accDelta"],
    apply(raw, parameter, slots, step) {
      const gradient = penalised(raw, parameter, step);
      const squareAvg = averaged(slots.squareAvg, gradient.mul(gradient), rho);
      const delta = slots.accDelta.add(epsilon).sqrt().div(squareAvg.add(epsilon).sqrt()).mul(gradient);
      const accDelta = averaged(slots.accDelta, delta.mul(delta), rho);
      return { parameter: parameter.sub(delta.mul(step.learningRate)), slots: { squareAvg, accDelta } };
    },
  });
}

/** Options of {@link rprop}. The learning rate is each element's first step size; a schedule has no later effect. */
export interface RpropOptions extends LearningRate {
  /** Factors of a step size: when the gradient's sign changes, and when it stays; default [0.5, 1.2]. */
  readonly etas?: readonly [number, number];
  /** Smallest and largest step size; default [1e-6, 50]. */
  readonly stepSizes?: readonly [number, number];
}

/** Rprop (Riedmiller and Braun, 1993) as PyTorch computes it: steps by sign, for whole batches. */
export function rprop(options: RpropOptions): Optimizer {
  checkOptions("rprop", options, ["learningRate", "etas", "stepSizes"]);
  const { learningRate, etas: [down, up] = [0.5, 1.2], stepSizes: [minStepSize, maxStepSize] = [1e-6, 50] } = options;
  checkNumber("rprop", "etas[0]", down, Number.MIN_VALUE, 1);
  checkNumber("rprop", "etas[1]", up, 1);
  checkNumber("rprop", "stepSizes[0]", minStepSize, 0);
  checkNumber("rprop", "stepSizes[1]", maxStepSize, minStepSize);
  if (typeof learningRate !== "number")
    throw new HeddleError("option", "rprop: learningRate must be a number: it is only the initial step size");
  return perParameter<"previous" | "stepSize">({
    name: "rprop",
    learningRate,
    slots: ["previous", "stepSize"],
    initial: (slot, { shape, dtype }) => full(shape, slot === "stepSize" ? learningRate : 0, { dtype }),
    apply(gradient, parameter, slots) {
      const agreement = gradient.mul(slots.previous);
      const { dtype } = gradient;
      const slower = select(agreement.lt(0), full([], down, { dtype }), 1);
      const factor = select(agreement.gt(0), up, slower);
      const stepSize = minimum(maximum(slots.stepSize.mul(factor), minStepSize), maxStepSize);
      // If the sign has changed, the last step went too far: this step is left out.
      const previous = select(agreement.lt(0), 0, gradient);
      return { parameter: parameter.sub(sign(previous).mul(stepSize)), slots: { previous, stepSize } };
    },
  });
}

/** Options of {@link ftrl}; all default to the paper's. */
export interface FtrlOptions extends LearningRate {
  /** Penalty on absolute values, which makes small parameters 0; default 0. */
  readonly l1?: number;
  /** Penalty on squares; default 0. */
  readonly l2?: number;
  /** Added to the root of the sum of squares; default 1. */
  readonly beta?: number;
  /** Initial value of the sums of squares; default 0. */
  readonly initialAccumulator?: number;
}

/**
 * Follow the regularised leader, for each coordinate (McMahan et al., "Ad Click Prediction: a View from the Trenches", 2013,
 * algorithm 1): sparse linear models. Each parameter is a function of the gradients so far; its initial value counts only
 * through them, so an element whose gradients do not reach `l1` becomes 0 at the first step. A learning rate of 0 has no meaning here.
 */
export function ftrl(options: FtrlOptions): Optimizer {
  checkOptions("ftrl", options, ["learningRate", "l1", "l2", "beta", "initialAccumulator"]);
  const { learningRate, l1 = 0, l2 = 0, beta = 1, initialAccumulator = 0 } = options;
  for (const [name, value] of Object.entries({ l1, l2, beta, initialAccumulator })) checkNumber("ftrl", name, value, 0);
  return perParameter<"sum" | "linear">({
    name: "ftrl",
    learningRate,
    slots: ["sum", "linear"],
    initial: (slot, { shape, dtype }) => full(shape, slot === "sum" ? initialAccumulator : 0, { dtype }),
    apply(gradient, parameter, slots, { learningRate: rate }) {
      const sum = slots.sum.add(gradient.mul(gradient));
      const root = sum.sqrt();
      const linear = slots.linear.add(gradient).sub(root.sub(slots.sum.sqrt()).div(rate).mul(parameter));
      const excess = linear.sub(sign(linear).mul(l1));
      const next = excess
        .neg()
        .mul(rate)
        .div(root.add(beta).add(typeof rate === "number" ? l2 * rate : rate.mul(l2)));
      return { parameter: select(linear.abs().le(l1), 0, next), slots: { sum, linear } };
    },
  });
}
