/** @module Adam (Kingma and Ba, 2015) and AdamW (Loshchilov and Hutter, 2019), as PyTorch computes them. */
import { HeddleError } from "../util/errors.ts";
import { checkNumber, checkOptions } from "../util/options.ts";
import { biasCorrection, type LearningRate, type Optimizer, perParameter } from "./optimizer.ts";

/** Options of {@link adam} and {@link adamW}. */
export interface AdamOptions extends LearningRate {
  /** Decay of the averages of the gradient and of its square; default [0.9, 0.999]. */
  readonly betas?: readonly [number, number];
  /** Added to the root, against division by zero; default 1e-8. */
  readonly epsilon?: number;
  /** Default 0 for `adam` (an L2 penalty on the gradient), 0.01 for `adamW` (the parameters shrink by themselves). */
  readonly weightDecay?: number;
}

/** Adam; `weightDecay` is an L2 penalty. */
export const adam = (options: AdamOptions): Optimizer => make("adam", options, 0);

/** Adam with decoupled weight decay. */
export const adamW = (options: AdamOptions): Optimizer => make("adamW", options, 0.01);

function make(name: "adam" | "adamW", options: AdamOptions, defaultDecay: number): Optimizer {
  checkOptions(name, options, ["learningRate", "betas", "epsilon", "weightDecay"]);
  const { learningRate, betas = [0.9, 0.999], epsilon = 1e-8, weightDecay = defaultDecay } = options;
  const [beta1, beta2] = betas;
  for (const beta of [beta1, beta2]) {
    if (!(beta >= 0 && beta < 1)) throw new HeddleError("option", `${name}: betas must be in [0, 1), got ${beta}`);
  }
  checkNumber(name, "epsilon", epsilon, 0);
  checkNumber(name, "weightDecay", weightDecay, 0);
  return perParameter<"expAvg" | "expAvgSq">({
    name,
    learningRate,
    slots: ["expAvg", "expAvgSq"],
    apply(rawGradient, rawParameter, slots, { learningRate: rate, count }) {
      const decays = weightDecay !== 0;
      const gradient = decays && name === "adam" ? rawGradient.add(rawParameter.mul(weightDecay)) : rawGradient;
      const parameter =
        decays && name === "adamW" ? rawParameter.sub(rawParameter.mul(weightDecay).mul(rate)) : rawParameter;
      const expAvg = slots.expAvg.mul(beta1).add(gradient.mul(1 - beta1));
      const expAvgSq = slots.expAvgSq.mul(beta2).add(gradient.mul(gradient).mul(1 - beta2));
      const first = biasCorrection(beta1, count);
      const second = biasCorrection(beta2, count);
      const root = expAvgSq.div(second).sqrt().add(epsilon);
      return {
        parameter: parameter.sub(expAvg.div(first).mul(rate).div(root)),
        slots: { expAvg, expAvgSq },
      };
    },
  });
}
