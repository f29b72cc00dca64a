/** @module Adam and its descendants: AdamW, Adamax, NAdam, RAdam, Lion and LAMB. */
import { full, linalg, maximum, rsqrt, select, sign, type Tensor } from "../functions/index.ts";
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
  /** Decay of the averages of the gradient and of its square; default [0.9, 0.999], for `lion` [0.9, 0.99]. */
  readonly betas?: readonly [number, number];
  /** Added to the root, against division by zero; default 1e-8, for `lamb` 1e-6. `lion` has no epsilon. */
  readonly epsilon?: number;
}

/** Options of {@link adam} and {@link adamW}; `weightDecay` is 0 for `adam` and 0.01 for `adamW` by default. */
export interface AdamOptions extends BetaOptions {
  /** Divide by the largest average of squares so far (Reddi et al., 2018) instead of the current average; default false. */
  readonly amsgrad?: boolean;
}

/** Checks the options that all of them have; `defaults` are the defaults of this optimizer. */
function checked<Options extends BetaOptions>(
  name: string,
  options: Options,
  more: readonly string[] = [],
  defaults: Pick<BetaOptions, "betas" | "epsilon" | "weightDecay"> = {},
) {
  checkOptions(name, options, [...commonOptions, "betas", "epsilon", ...more]);
  const {
    betas: defaultBetas = [0.9, 0.999],
    epsilon: defaultEpsilon = 1e-8,
    weightDecay: defaultDecay = 0,
  } = defaults;
  const {
    learningRate,
    betas = defaultBetas,
    epsilon = defaultEpsilon,
    weightDecay = defaultDecay,
    decayMask,
  } = options;
  checkBetas(name, betas);
  checkNumber(name, "epsilon", epsilon, 0);
  const decay = { weightDecay, ...(decayMask === undefined ? {} : { decayMask }) };
  return { betas, epsilon, shared: { name, learningRate, ...decay } };
}

/** Adam (Kingma and Ba, 2015) as PyTorch computes it; `weightDecay` is an L2 penalty. */
export const adam = (options: AdamOptions): Optimizer => makeAdam("adam", options);

/** Adam with weight decay decoupled from the gradient (Loshchilov and Hutter, 2019). */
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
      // Divisions of scalars: each element costs one division and one root.
      const size = asTensor(step.learningRate, expAvg).div(biasCorrection(beta1, step.count));
      const scale = rsqrt(asTensor(biasCorrection(beta2, step.count), expAvg));
      const root = maxExpAvgSq.sqrt().mul(scale).add(epsilon);
      return {
        parameter: parameter.sub(expAvg.mul(size).div(root)),
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
  /** How fast the first beta approaches its full value; default 0.004. */
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

/** Adam that divides by the root mean square only after enough steps (Liu et al., 2020), as PyTorch computes it. */
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

/** Whether the variance of the adaptive rate is tractable, and the rectification factor, bias correction included. */
function rectification(beta2: number, count: Tensor): { rectifies: Tensor; factor: Tensor } {
  const maxLength = 2 / (1 - beta2) - 1;
  const correction = biasCorrection(beta2, count) as Tensor;
  const length = count.mul(-2).mul(correction.sub(1).neg()).div(correction).add(maxLength);
  const rectifies = length.gt(5);
  // Below the bound the square would be negative; select replaces it.
  const square = length
    .sub(4)
    .mul(length.sub(2))
    .mul(maxLength)
    .div(length.mul((maxLength - 4) * (maxLength - 2)));
  return { rectifies, factor: select(rectifies, square.mul(correction), 1).sqrt() };
}

/**
 * Lion (Chen et al., "Symbolic Discovery of Optimization Algorithms", 2023, algorithm 2): the step is the sign of an average,
 * with decoupled weight decay. Its learning rate is a third to a tenth of Adam's.
 */
export function lion(options: Omit<BetaOptions, "epsilon">): Optimizer {
  checkOptions("lion", options, [...commonOptions, "betas"]);
  const { betas, shared } = checked("lion", options, [], { betas: [0.9, 0.99] });
  const [beta1, beta2] = betas;
  return perParameter<"expAvg">({
    ...shared,
    slots: ["expAvg"],
    apply(gradient, parameter, slots, step) {
      // Both averages use one difference, so that one kernel computes them.
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
 * is scaled to the norm of each parameter tensor. Weight decay is scaled, too.
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

/** |parameter| / |direction|; 1 if either norm is 0. */
function trustRatio(parameter: Tensor, direction: Tensor): Tensor {
  const [parameterNorm, directionNorm] = [parameter, direction].map((x) => linalg.norm(x)) as [Tensor, Tensor];
  return select(parameterNorm.mul(directionNorm).gt(0), parameterNorm.div(directionNorm), 1);
}
