/** @module Adam and what came of it: AdamW, Adamax, NAdam, RAdam, Lion and LAMB. */
import { full, linalg, maximum, select, sign, type Tensor } from "../functions/index.ts";
import { checkNumber, checkOptions } from "../util/options.ts";
import {
  asTensor,
  averaged,
  biasCorrection,
  checkBetas,
  commonOptions,
  type LearningRate,
  type Optimizer,
  penalised,
  perParameter,
  shrunk,
  type WeightDecay,
} from "./optimizer.ts";

/** Options that all optimizers of this family have. */
export interface BetaOptions extends LearningRate, WeightDecay {
  /** Decay of the averages of the gradient and of its square; default [0.9, 0.999], of `lion` [0.9, 0.99]. */
  readonly betas?: readonly [number, number];
  /** Added to the root, against division by zero; default 1e-8, of `lamb` 1e-6. `lion` has none. */
  readonly epsilon?: number;
}

/** Options of {@link adam} and {@link adamW}; `weightDecay` is 0 for `adam` and 0.01 for `adamW` by default. */
export interface AdamOptions extends BetaOptions {
  /** Divide by the largest average of squares so far (Reddi et al., 2018) instead of the present one; default false. */
  readonly amsgrad?: boolean;
}

/** The options that all have, checked; `usual` are the defaults of this one where they are others. */
function checked<Options extends BetaOptions>(
  name: string,
  options: Options,
  more: readonly string[] = [],
  usual: Pick<BetaOptions, "betas" | "epsilon" | "weightDecay"> = {},
) {
  checkOptions(name, options, [...commonOptions, "betas", "epsilon", ...more]);
  const { betas: usualBetas = [0.9, 0.999], epsilon: usualEpsilon = 1e-8, weightDecay: usualDecay = 0 } = usual;
  const { learningRate, betas = usualBetas, epsilon = usualEpsilon, weightDecay = usualDecay, decayMask } = options;
  checkBetas(name, betas);
  checkNumber(name, "epsilon", epsilon, 0);
  const decay = { weightDecay, ...(decayMask === undefined ? {} : { decayMask }) };
  return { betas, epsilon, shared: { name, learningRate, ...decay } };
}

/** Adam (Kingma and Ba, 2015) as PyTorch computes it; `weightDecay` is an L2 penalty. */
export const adam = (options: AdamOptions): Optimizer => makeAdam("adam", options);

/** Adam with decoupled weight decay (Loshchilov and Hutter, 2019): parameters shrink by themselves. */
export const adamW = (options: AdamOptions): Optimizer => makeAdam("adamW", options, 0.01);

function makeAdam(name: "adam" | "adamW", options: AdamOptions, weightDecay = 0): Optimizer {
  const { betas, epsilon, shared } = checked(name, options, ["amsgrad"], { weightDecay });
  const { amsgrad = false } = options;
  const [beta1, beta2] = betas;
  type Slot = "expAvg" | "expAvgSq" | "maxExpAvgSq";
  return perParameter<Slot>({
    ...shared,
    slots: ["expAvg", "expAvgSq", ...(amsgrad ? (["maxExpAvgSq"] as const) : [])],
    apply(raw, rawParameter, slots, step) {
      const gradient = name === "adam" ? penalised(raw, rawParameter, step) : raw;
      const parameter = name === "adamW" ? shrunk(rawParameter, step) : rawParameter;
      const expAvg = averaged(slots.expAvg, gradient, beta1);
      const expAvgSq = averaged(slots.expAvgSq, gradient.mul(gradient), beta2);
      const maxExpAvgSq = amsgrad ? maximum(slots.maxExpAvgSq, expAvgSq) : expAvgSq;
      const first = biasCorrection(beta1, step.count);
      const second = biasCorrection(beta2, step.count);
      const root = maxExpAvgSq.div(second).sqrt().add(epsilon);
      return {
        parameter: parameter.sub(expAvg.div(first).mul(step.learningRate).div(root)),
        slots: { expAvg, expAvgSq, maxExpAvgSq },
      };
    },
  });
}

/** Adam by the largest gradient instead of the mean square (Kingma and Ba, 2015, section 7.1), as PyTorch computes it. */
export function adamax(options: BetaOptions): Optimizer {
  const { betas, epsilon, shared } = checked("adamax", options);
  const [beta1, beta2] = betas;
  return perParameter<"expAvg" | "expInf">({
    ...shared,
    slots: ["expAvg", "expInf"],
    apply(raw, parameter, slots, step) {
      const gradient = penalised(raw, parameter, step);
      const expAvg = averaged(slots.expAvg, gradient, beta1);
      const expInf = maximum(slots.expInf.mul(beta2), gradient.abs().add(epsilon));
      const direction = expAvg.div(biasCorrection(beta1, step.count)).mul(step.learningRate).div(expInf);
      return { parameter: parameter.sub(direction), slots: { expAvg, expInf } };
    },
  });
}

/** Options of {@link nAdam}. */
export interface NAdamOptions extends BetaOptions {
  /** How fast the first beta comes to its full value; default 0.004. */
  readonly momentumDecay?: number;
  /** Weight decay shrinks the parameters by themselves, as in `adamW`, instead of being a penalty; default false. */
  readonly decoupledWeightDecay?: boolean;
}

/** Adam with Nesterov's momentum (Dozat, 2016) as PyTorch computes it; its usual learning rate is 0.002. */
export function nAdam(options: NAdamOptions): Optimizer {
  const { betas, epsilon, shared } = checked("nAdam", options, ["momentumDecay", "decoupledWeightDecay"]);
  const { momentumDecay = 0.004, decoupledWeightDecay = false } = options;
  checkNumber("nAdam", "momentumDecay", momentumDecay, 0);
  const [beta1, beta2] = betas;
  const momentumOf = (count: Tensor): Tensor =>
    count
      .mul(momentumDecay * Math.log(0.96))
      .exp()
      .mul(-0.5 * beta1)
      .add(beta1);
  return perParameter<"expAvg" | "expAvgSq" | "momentumProduct">({
    ...shared,
    slots: ["expAvg", "expAvgSq", "momentumProduct"],
    initial: (slot, { shape, dtype }) =>
      slot === "momentumProduct" ? full([], 1, { dtype }) : full(shape, 0, { dtype }),
    apply(raw, rawParameter, slots, step) {
      const gradient = decoupledWeightDecay ? raw : penalised(raw, rawParameter, step);
      const parameter = decoupledWeightDecay ? shrunk(rawParameter, step) : rawParameter;
      const count = asTensor(step.count, raw);
      const momentum = momentumOf(count);
      const next = momentumOf(count.add(1));
      const momentumProduct = slots.momentumProduct.mul(momentum);
      const expAvg = averaged(slots.expAvg, gradient, beta1);
      const expAvgSq = averaged(slots.expAvgSq, gradient.mul(gradient), beta2);
      const ofGradient = momentum.sub(1).div(momentumProduct.sub(1)).mul(step.learningRate);
      const ofAverage = next.neg().div(momentumProduct.mul(next).sub(1)).mul(step.learningRate);
      const root = expAvgSq.div(biasCorrection(beta2, step.count)).sqrt().add(epsilon);
      const direction = gradient.mul(ofGradient).add(expAvg.mul(ofAverage)).div(root);
      return { parameter: parameter.sub(direction), slots: { expAvg, expAvgSq, momentumProduct } };
    },
  });
}

/** Options of {@link rAdam}. */
export interface RAdamOptions extends BetaOptions {
  /** Weight decay shrinks the parameters by themselves, as in `adamW`, instead of being a penalty; default false. */
  readonly decoupledWeightDecay?: boolean;
}

/** Adam that divides by the root of the squares only once enough of them are known (Liu et al., 2020), as PyTorch. */
export function rAdam(options: RAdamOptions): Optimizer {
  const { betas, epsilon, shared } = checked("rAdam", options, ["decoupledWeightDecay"]);
  const { decoupledWeightDecay = false } = options;
  const [beta1, beta2] = betas;
  return perParameter<"expAvg" | "expAvgSq">({
    ...shared,
    slots: ["expAvg", "expAvgSq"],
    apply(raw, rawParameter, slots, step) {
      const gradient = decoupledWeightDecay ? raw : penalised(raw, rawParameter, step);
      const parameter = decoupledWeightDecay ? shrunk(rawParameter, step) : rawParameter;
      const expAvg = averaged(slots.expAvg, gradient, beta1);
      const expAvgSq = averaged(slots.expAvgSq, gradient.mul(gradient), beta2);
      const { rectifies, factor } = rectification(beta2, asTensor(step.count, raw));
      const scaled = expAvg.div(biasCorrection(beta1, step.count)).mul(step.learningRate);
      const direction = select(rectifies, scaled.mul(factor).div(expAvgSq.sqrt().add(epsilon)), scaled);
      return { parameter: parameter.sub(direction), slots: { expAvg, expAvgSq } };
    },
  });
}

/** Whether the variance of the squares is bounded, and the factor against it, bias correction included. */
function rectification(beta2: number, count: Tensor): { rectifies: Tensor; factor: Tensor } {
  const most = 2 / (1 - beta2) - 1;
  const correction = biasCorrection(beta2, count) as Tensor;
  const length = count.mul(-2).mul(correction.sub(1).neg()).div(correction).add(most);
  const rectifies = length.gt(5);
  // Below the bound the root would be of a negative number, which select leaves aside.
  const square = length
    .sub(4)
    .mul(length.sub(2))
    .mul(most)
    .div(length.mul((most - 4) * (most - 2)));
  return { rectifies, factor: select(rectifies, square.mul(correction), 1).sqrt() };
}

/**
 * Lion (Chen et al., "Symbolic Discovery of Optimization Algorithms", 2023, algorithm 2): steps by the sign alone, with
 * decoupled weight decay. Its learning rate is a third to a tenth of Adam's.
 */
export function lion(options: Omit<BetaOptions, "epsilon">): Optimizer {
  checkOptions("lion", options, [...commonOptions, "betas"]);
  const { betas, shared } = checked("lion", options, [], { betas: [0.9, 0.99] });
  const [beta1, beta2] = betas;
  return perParameter<"expAvg">({
    ...shared,
    slots: ["expAvg"],
    apply(gradient, parameter, slots, step) {
      // Both averages from one difference, so that both are of one kernel.
      const difference = gradient.sub(slots.expAvg);
      const direction = sign(slots.expAvg.add(difference.mul(1 - beta1)));
      return {
        parameter: shrunk(parameter, step).sub(direction.mul(step.learningRate)),
        slots: { expAvg: slots.expAvg.add(difference.mul(1 - beta2)) },
      };
    },
  });
}

/**
 * LAMB (You et al., "Large Batch Optimization for Deep Learning", 2020, algorithm 2, with bias correction): Adam whose step
 * is scaled for each parameter tensor to the tensor's own norm. Weight decay is part of what is scaled.
 */
export function lamb(options: BetaOptions): Optimizer {
  const { betas, epsilon, shared } = checked("lamb", options, [], { epsilon: 1e-6 });
  const [beta1, beta2] = betas;
  return perParameter<"expAvg" | "expAvgSq">({
    ...shared,
    slots: ["expAvg", "expAvgSq"],
    apply(gradient, parameter, slots, step) {
      const expAvg = averaged(slots.expAvg, gradient, beta1);
      const expAvgSq = averaged(slots.expAvgSq, gradient.mul(gradient), beta2);
      const root = expAvgSq.div(biasCorrection(beta2, step.count)).sqrt().add(epsilon);
      const direction = penalised(expAvg.div(biasCorrection(beta1, step.count)).div(root), parameter, step);
      return {
        parameter: parameter.sub(direction.mul(trustRatio(parameter, direction)).mul(step.learningRate)),
        slots: { expAvg, expAvgSq },
      };
    },
  });
}

/** |parameter| / |direction|; 1 where one of them is 0. */
function trustRatio(parameter: Tensor, direction: Tensor): Tensor {
  const [own, other] = [parameter, direction].map((x) => linalg.norm(x)) as [Tensor, Tensor];
  return select(own.mul(other).gt(0), own.div(other), 1);
}
