/** @module Adafactor: estimates the second moments of a matrix from means of its rows and columns. */
import { full, linalg, maximum, minimum, rsqrt, type Tensor } from "../functions/index.ts";
import { checkNumber, checkOptions } from "../util/options.ts";
import {
  asTensor,
  commonOptions,
  type LearningRate,
  type Optimizer,
  perParameter,
  type StepScalars,
  shrunk,
  type WeightDecay,
} from "./optimizer.ts";

/** Options of {@link adafactor}; weight decay is decoupled from the gradient. */
export interface AdafactorOptions extends LearningRate, WeightDecay {
  /** The average of squares decays by 1 - count^beta2Decay; default -0.8. */
  readonly beta2Decay?: number;
  /** Smallest root of a mean square (default: the machine epsilon of the computation's dtype), and smallest scale of a parameter (1e-3). */
  readonly epsilons?: readonly [number | undefined, number];
  /** Largest root mean square of an update, at least 1; default 1. */
  readonly clipThreshold?: number;
}

const machineEpsilon: { readonly [dtype: string]: number } = { f32: 2 ** -23, f64: 2 ** -52 };

/**
 * Adafactor (Shazeer and Stern, 2018) as PyTorch computes it, without first moments. For a tensor of two
 * or more dims, the state is the means of squared gradients along each of the last two dims, instead of all squares. The step is
 * relative to the tensor's own root mean square. The learning rate, usually 0.01, is the largest relative step, which falls as 1/√count.
 */
export function adafactor(options: AdafactorOptions): Optimizer {
  checkOptions("adafactor", options, [...commonOptions, "beta2Decay", "epsilons", "clipThreshold"]);
  const {
    beta2Decay = -0.8,
    epsilons: [minEpsilon, minScale] = [undefined, 1e-3],
    clipThreshold = 1,
    ...shared
  } = options;
  checkNumber("adafactor", "beta2Decay", beta2Decay, -Number.MAX_VALUE, 0);
  if (minEpsilon !== undefined) checkNumber("adafactor", "epsilons[0]", minEpsilon, 0);
  checkNumber("adafactor", "epsilons[1]", minScale, 0);
  checkNumber("adafactor", "clipThreshold", clipThreshold, 1);
  return perParameter<Slot>({
    ...shared,
    name: "adafactor",
    slots: ({ shape }) => (shape.length > 1 ? ["rowVar", "colVar"] : ["variance"]),
    initial: (slot, { shape, dtype }) => full(slotShape(slot, shape), 0, { dtype }),
    apply(gradient, parameter, slots, step) {
      const epsilon = minEpsilon ?? (machineEpsilon[parameter.dtype] as number);
      const scale = maximum(rootMeanSquare(parameter), minScale).mul(relativeStep(step, parameter));
      const share = asTensor(step.count, parameter).pow(beta2Decay);
      const { variance, slots: next } = secondMoment(gradient, slots, share, epsilon);
      const update = rsqrt(maximum(variance, epsilon * epsilon)).mul(gradient);
      const excess = maximum(rootMeanSquare(update).div(clipThreshold), 1);
      return { parameter: shrunk(parameter, step).sub(update.mul(scale.div(excess))), slots: next };
    },
  });
}

type Slot = "rowVar" | "colVar" | "variance";

function slotShape(slot: Slot, shape: readonly number[]): readonly number[] {
  const [lead, rows, columns] = [shape.slice(0, -2), shape.at(-2) as number, shape.at(-1) as number];
  return slot === "rowVar" ? [...lead, rows, 1] : slot === "colVar" ? [...lead, 1, columns] : shape;
}

/** Computed by the norm, whose squares neither overflow nor underflow. */
const rootMeanSquare = (x: Tensor): Tensor => linalg.norm(x).div(Math.sqrt(x.size));

/** The smaller of the learning rate and 1/√count. */
const relativeStep = ({ learningRate, count }: StepScalars, like: Tensor): Tensor =>
  minimum(rsqrt(asTensor(count, like)), learningRate);

/** The averages updated with this gradient's squares, and the second moment that they estimate. */
function secondMoment(
  gradient: Tensor,
  slots: Readonly<Record<Slot, Tensor>>,
  share: Tensor,
  epsilon: number,
): { variance: Tensor; slots: Partial<Record<Slot, Tensor>> } {
  const moved = (average: Tensor, value: Tensor): Tensor => average.add(value.sub(average).mul(share));
  const square = gradient.mul(gradient);
  if (gradient.shape.length < 2) {
    const variance = moved(slots.variance, square);
    return { variance, slots: { variance } };
  }
  const rowVar = moved(slots.rowVar, square.mean(-1, { keepDims: true }));
  const colVar = moved(slots.colVar, square.mean(-2, { keepDims: true }));
  const variance = rowVar.mul(colVar).div(maximum(rowVar.mean(-2, { keepDims: true }), epsilon));
  return { variance, slots: { rowVar, colVar } };
}
