/** @module Stochastic gradient descent. */
import { select, type Tensor } from "../tensor/index.ts";
import { HeddleError } from "../util/errors.ts";
import { checkNumber, checkOptions } from "../util/options.ts";
import { type LearningRate, type Optimizer, perParameter, type StepScalars } from "./optimizer.ts";

/** Options of {@link sgd}. */
export interface SgdOptions extends LearningRate {
  /** Share of the last step's direction that is kept; default 0. */
  readonly momentum?: number;
  /** Look ahead along the momentum; default false. */
  readonly nesterov?: boolean;
  /** Share of the gradient that momentum leaves out; default 0. */
  readonly dampening?: number;
  /** L2 penalty, added to the gradient as `weightDecay · parameter`; default 0. */
  readonly weightDecay?: number;
}

/** Stochastic gradient descent with momentum, as PyTorch's `SGD`: the first step's buffer is the gradient itself. */
export function sgd(options: SgdOptions): Optimizer {
  checkOptions("sgd", options, ["learningRate", "momentum", "nesterov", "dampening", "weightDecay"]);
  const { learningRate, momentum = 0, nesterov = false, dampening = 0, weightDecay = 0 } = options;
  checkNumber("sgd", "momentum", momentum, 0);
  checkNumber("sgd", "dampening", dampening);
  checkNumber("sgd", "weightDecay", weightDecay, 0);
  if (nesterov && (momentum === 0 || dampening !== 0)) {
    throw new HeddleError("option", "sgd: nesterov needs a momentum and no dampening");
  }
  const penalised = (gradient: Tensor, parameter: Tensor): Tensor =>
    weightDecay === 0 ? gradient : gradient.add(parameter.mul(weightDecay));
  if (momentum === 0) {
    return perParameter<never>({
      name: "sgd",
      learningRate,
      slots: [],
      apply: (gradient, parameter, slots, step) => ({
        parameter: parameter.sub(penalised(gradient, parameter).mul(step.learningRate)),
        slots,
      }),
    });
  }
  return perParameter<"momentumBuffer">({
    name: "sgd",
    learningRate,
    slots: ["momentumBuffer"],
    apply(rawGradient, parameter, slots, step) {
      const gradient = penalised(rawGradient, parameter);
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
