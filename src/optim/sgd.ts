/** @module Stochastic gradient descent. */
import { select, type Tensor } from "../functions/index.ts";
import { HeddleError } from "../util/errors.ts";
import { checkNumber, checkOptions } from "../util/options.ts";
import {
  commonOptions,
  type LearningRate,
  type Optimizer,
  penalised,
  perParameter,
  type StepScalars,
  type WeightDecay,
} from "./optimizer.ts";

/** Options of {@link sgd}; `weightDecay` is an L2 penalty. */
export interface SgdOptions extends LearningRate, WeightDecay {
  /** Share of the previous direction in the new direction; default 0. */
  readonly momentum?: number;
  /** Look ahead along the momentum; default false. */
  readonly nesterov?: boolean;
  /** Share of the gradient that momentum leaves out; default 0. */
  readonly dampening?: number;
}

/** Stochastic gradient descent with momentum, as PyTorch's `SGD`: the first step's buffer is the gradient itself. */
export function sgd(options: SgdOptions): Optimizer {
  checkOptions("sgd", options, [...commonOptions, "momentum", "nesterov", "dampening"]);
  const { momentum = 0, nesterov = false, dampening = 0, ...shared } = options;
  checkNumber("sgd", "momentum", momentum, 0);
  checkNumber("sgd", "dampening", dampening);
  if (nesterov && (momentum === 0 || dampening !== 0)) {
    throw new HeddleError("option", "sgd: nesterov needs a momentum and no dampening");
  }
  if (momentum === 0) {
    return perParameter<never>({
      ...shared,
      name: "sgd",
      slots: [],
      apply: (gradient, parameter, slots, step) => ({
        parameter: parameter.sub(penalised(gradient, parameter, step).mul(step.learningRate)),
        slots,
      }),
    });
  }
  return perParameter<"momentumBuffer">({
    ...shared,
    name: "sgd",
    slots: ["momentumBuffer"],
    apply(rawGradient, parameter, slots, step) {
      const gradient = penalised(rawGradient, parameter, step);
      const momentumBuffer = slots.momentumBuffer.mul(momentum).add(damped(gradient, dampening, step));
      const direction = nesterov ? gradient.add(momentumBuffer.mul(momentum)) : momentumBuffer;
      return { parameter: parameter.sub(direction.mul(step.learningRate)), slots: { momentumBuffer } };
    },
  });
}

/** The gradient's share of the buffer: all of it at the first step, when the buffer is empty. */
function damped(gradient: Tensor, dampening: number, { count }: StepScalars): Tensor {
  if (dampening === 0) return gradient;
  if (typeof count === "number") return count === 1 ? gradient : gradient.mul(1 - dampening);
  return select(count.eq(1), gradient, gradient.mul(1 - dampening));
}
