/** @module Adagrad (Duchi et al., 2011) and RMSProp (Hinton, 2012), as PyTorch computes them. */
import type { Tensor } from "../tensor/index.ts";
import { checkNumber, checkOptions } from "../util/options.ts";
import { type LearningRate, type Optimizer, perParameter } from "./optimizer.ts";

/** Options of {@link adagrad}. */
export interface AdagradOptions extends LearningRate {
  /** The learning rate of step t (from 0) is divided by 1 + t · learningRateDecay; default 0. */
  readonly learningRateDecay?: number;
  /** L2 penalty; default 0. */
  readonly weightDecay?: number;
  /** Where the sums of squares begin; default 0. */
  readonly initialAccumulator?: number;
  /** Default 1e-10. */
  readonly epsilon?: number;
}

/** Adagrad: each element's step is divided by the root of the sum of its squared gradients. */
export function adagrad(options: AdagradOptions): Optimizer {
  const names = ["learningRate", "learningRateDecay", "weightDecay", "initialAccumulator", "epsilon"];
  checkOptions("adagrad", options, names);
  const { learningRate, learningRateDecay = 0, weightDecay = 0, initialAccumulator = 0, epsilon = 1e-10 } = options;
  checkNumber("adagrad", "learningRateDecay", learningRateDecay, 0);
  checkNumber("adagrad", "weightDecay", weightDecay, 0);
  checkNumber("adagrad", "initialAccumulator", initialAccumulator, 0);
  checkNumber("adagrad", "epsilon", epsilon, 0);
  return perParameter<"sum">({
    name: "adagrad",
    learningRate,
    slots: ["sum"],
    initial: initialAccumulator,
    apply(rawGradient, parameter, slots, { learningRate: rate, count }) {
      const gradient = weightDecay === 0 ? rawGradient : rawGradient.add(parameter.mul(weightDecay));
      const sum = slots.sum.add(gradient.mul(gradient));
      const step = gradient.mul(rate).div(sum.sqrt().add(epsilon));
      return { parameter: parameter.sub(decayed(step, learningRateDecay, count)), slots: { sum } };
    },
  });
}

function decayed(step: Tensor, decay: number, count: number | Tensor): Tensor {
  if (decay === 0) return step;
  return step.div(typeof count === "number" ? 1 + (count - 1) * decay : count.sub(1).mul(decay).add(1));
}

/** Options of {@link rmsProp}. */
export interface RmsPropOptions extends LearningRate {
  /** Decay of the average of squared gradients; default 0.99. */
  readonly alpha?: number;
  /** Default 1e-8. */
  readonly epsilon?: number;
  /** L2 penalty; default 0. */
  readonly weightDecay?: number;
  /** Default 0. */
  readonly momentum?: number;
  /** Divide by the standard deviation instead of the root mean square; default false. */
  readonly centered?: boolean;
}

/** RMSProp: each element's step is divided by the root of a moving average of its squared gradients. */
export function rmsProp(options: RmsPropOptions): Optimizer {
  checkOptions("rmsProp", options, ["learningRate", "alpha", "epsilon", "weightDecay", "momentum", "centered"]);
  const { learningRate, alpha = 0.99, epsilon = 1e-8, weightDecay = 0, momentum = 0, centered = false } = options;
  checkNumber("rmsProp", "alpha", alpha, 0);
  checkNumber("rmsProp", "epsilon", epsilon, 0);
  checkNumber("rmsProp", "weightDecay", weightDecay, 0);
  checkNumber("rmsProp", "momentum", momentum, 0);
  type Slot = "squareAvg" | "gradAvg" | "momentumBuffer";
  const slotNames: Slot[] = [
    "squareAvg",
    ...(centered ? (["gradAvg"] as const) : []),
    ...(momentum > 0 ? (["momentumBuffer"] as const) : []),
  ];
  return perParameter<Slot>({
    name: "rmsProp",
    learningRate,
    slots: slotNames,
    apply(rawGradient, parameter, slots, { learningRate: rate }) {
      const gradient = weightDecay === 0 ? rawGradient : rawGradient.add(parameter.mul(weightDecay));
      const squareAvg = slots.squareAvg.mul(alpha).add(gradient.mul(gradient).mul(1 - alpha));
      const gradAvg = centered ? slots.gradAvg.add(gradient.sub(slots.gradAvg).mul(1 - alpha)) : slots.gradAvg;
      const variance = centered ? squareAvg.sub(gradAvg.mul(gradAvg)) : squareAvg;
      const scaled = gradient.div(variance.sqrt().add(epsilon));
      const momentumBuffer = momentum > 0 ? slots.momentumBuffer.mul(momentum).add(scaled) : slots.momentumBuffer;
      const direction = momentum > 0 ? momentumBuffer : scaled;
      return { parameter: parameter.sub(direction.mul(rate)), slots: { squareAvg, gradAvg, momentumBuffer } };
    },
  });
}
