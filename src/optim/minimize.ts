/** @module Minimising a function by L-BFGS with a line search that keeps Wolfe's strong conditions. */

import { isTensor, jit, type Tensor, type Tensors, valueAndGrad, zeros } from "../functions/index.ts";
import { widened } from "../functions/wide.ts";
import { isFloat } from "../ir/dtype.ts";
import { formatType } from "../ir/shape.ts";
import { HeddleError } from "../util/errors.ts";
import { checkInteger, checkNumber, checkOptions } from "../util/options.ts";
import { shown } from "../util/show.ts";
import { flattenTree, unflattenTree } from "../util/tree.ts";
import { directionOf, dot, emptyHistory, type History, parametersOf, plus, remembered, type Vector } from "./lbfgs.ts";
import { type Point, strongWolfe } from "./wolfe.ts";

/** Options of {@link minimize}. */
export interface MinimizeOptions {
  /** The most steps; default 100 (PyTorch: 20). */
  readonly maxIterations?: number;
  /** The most evaluations of the function; default: no bound but 25 a step. A search that is under way is ended first. */
  readonly maxEvaluations?: number;
  /** The first length that a search tries, of the first step at most that over the gradient's absolute sum; default 1. */
  readonly learningRate?: number;
  /** Steps that are remembered, each as two copies of the parameters; default 10 (PyTorch: 100). */
  readonly historySize?: number;
  /** It ends where no element of the gradient is larger; default 1e-7. */
  readonly toleranceGrad?: number;
  /** It ends where the loss, or all parameters, change by less; default 1e-9. */
  readonly toleranceChange?: number;
}

/** What {@link minimize} has found. */
export interface Minimum<Params> {
  readonly params: Params;
  readonly loss: number;
  readonly iterations: number;
  readonly evaluations: number;
  /**
   * Why it ended: the gradient or the change is below its tolerance, the most steps or evaluations are done, no lower point was
   * found along the direction, or the function falls on without end (`"unbounded"`): to minus infinity, or along the longest steps that
   * are tried.
   */
  readonly reason: "gradient" | "change" | "iterations" | "evaluations" | "search" | "unbounded";
}

type Settings = Required<MinimizeOptions>;

function settingsOf(options: MinimizeOptions): Settings {
  const names = ["maxIterations", "maxEvaluations", "learningRate", "historySize", "toleranceGrad", "toleranceChange"];
  checkOptions("minimize", options, names);
  const { maxIterations = 100, learningRate = 1, historySize = 10 } = options;
  const { toleranceGrad = 1e-7, toleranceChange = 1e-9 } = options;
  const { maxEvaluations = Number.MAX_SAFE_INTEGER } = options;
  checkInteger("minimize", "maxIterations", maxIterations, 1);
  checkInteger("minimize", "maxEvaluations", maxEvaluations, 1);
  checkNumber("minimize", "learningRate", learningRate, Number.MIN_VALUE);
  checkInteger("minimize", "historySize", historySize, 1);
  checkNumber("minimize", "toleranceGrad", toleranceGrad, 0);
  checkNumber("minimize", "toleranceChange", toleranceChange, 0);
  return { maxIterations, maxEvaluations, learningRate, historySize, toleranceGrad, toleranceChange };
}

/** Where the search stands: parameters, loss and gradient. */
interface Place extends Point {
  readonly leaves: Vector;
  readonly gradient: Vector;
  /** Of the gradient's absolute values, the largest and the sum. */
  readonly largest: number;
  readonly total: number;
}

const largestOf = (x: Vector): Tensor => x.map((one) => one.abs().max()).reduce((most, next) => most.maximum(next));
const totalOf = (x: Vector): Tensor => x.map((one) => one.abs().sum()).reduce((sum, next) => sum.add(next));
const numberOf = async (x: Tensor): Promise<number> => Number(await x.item());

/** @throws HeddleError `shape` unless a loss is a float scalar. */
function scalarLoss(loss: unknown): Tensor {
  if (isTensor(loss) && loss.shape.length === 0 && isFloat(loss.dtype)) return loss;
  const got = isTensor(loss) ? formatType(loss) : shown(loss);
  throw new HeddleError("shape", `minimize: the loss must be a float scalar, got ${got}`, {
    hint:
      isTensor(loss) && loss.size !== 1
        ? "reduce it with sum() or mean()"
        : "compute it by operations on the parameters",
  });
}

/** The compiled parts of the search. */
function compiled<Params extends Tensors>(loss: (params: Params) => Tensor, params: Params) {
  const { shape, leaves } = flattenTree(params, isTensor);
  const lossAndGrad = valueAndGrad((x: Tensors) => scalarLoss(loss(x as Params)));
  const probe = jit((from: Vector, direction: Vector, t: Tensor) => {
    const place = plus(from, direction, t);
    const { value, grad } = lossAndGrad(unflattenTree(shape, [...place]) as Tensors);
    const gradient = flattenTree(grad, isTensor).leaves;
    const numbers = [value, dot(gradient, direction), largestOf(gradient), totalOf(gradient)];
    return { place, gradient, numbers };
  });
  const turn = jit((history: History, step: Vector, change: Vector, gradient: Vector) => {
    const next = remembered(history, step, change);
    const direction = directionOf(next, gradient);
    return { next, direction, numbers: [dot(gradient, direction), largestOf(direction)] };
  });
  const { dtype } = leaves[0] as Tensor;
  return {
    turn,
    at: async (from: Vector, direction: Vector, t: number): Promise<Place> => {
      const made = probe(from, direction, zeros([], { dtype }).add(t));
      const numbers = await Promise.all(made.numbers.map(numberOf));
      const [value, slope, largest, total] = numbers as [number, number, number, number];
      return { t, loss: value, slope, largest, total, leaves: made.place, gradient: made.gradient };
    },
  };
}

/**
 * The parameters at which a function is lowest, by L-BFGS (Nocedal, 1980) with a line search for Wolfe's strong conditions (Nocedal and
 * Wright, "Numerical optimization", algorithms 3.5 and 3.6, with their constants 1e-4 and 0.9): what PyTorch's `LBFGS` does with
 * `line_search_fn="strong_wolfe"`. For whole batches: the function must be the same one each time it is called.
 *
 * @param loss a float scalar of the parameters, by tensor operations: it is compiled, with its gradient
 * @param params where to start: floats of one dtype; those of 16 bits are searched in f32
 * @throws HeddleError `tree` or `dtype` for other parameters; `option`; `value` where the first loss or gradient is not finite
 * @example const { params } = await optim.minimize(({ x }) => x.sub(3).mul(x.sub(3)).sum(), { x: zeros([2]) });
 */
export async function minimize<Params extends Tensors>(
  loss: (params: Params) => Tensor,
  params: Params,
  options: MinimizeOptions = {},
): Promise<Minimum<Params>> {
  if (typeof loss !== "function")
    throw new HeddleError("argument", `minimize: takes a function of parameters, got ${shown(loss)}`);
  const settings = settingsOf(options);
  const { toleranceGrad, toleranceChange } = settings;
  const given = flattenTree(params, isTensor);
  // 16-bit parameters are searched in f32.
  const wide = unflattenTree(given.shape, given.leaves.map(widened)) as Params;
  const { leaves: first, shape } = parametersOf("minimize", wide);
  const { dtype } = parametersOf("minimize", params).leaves[0] as Tensor;
  const { at, turn } = compiled(loss, wide);
  let history = emptyHistory(first, settings.historySize);
  // The step before the first is 0, and is not remembered.
  let [step, change]: [Vector, Vector] = [first.map(zerosOf), first.map(zerosOf)];
  let here = await at(first, step, 0);
  if (!Number.isFinite(here.loss + here.total))
    throw new HeddleError("value", `minimize: the first loss is ${here.loss}, the sum of its gradient ${here.total}`);
  let [iterations, evaluations] = [0, 1];
  const done = (reason: Minimum<Params>["reason"]): Minimum<Params> => ({
    params: unflattenTree(
      shape,
      here.leaves.map((leaf) => leaf.cast(dtype)),
    ) as Params,
    loss: here.loss,
    iterations,
    evaluations,
    reason,
  });
  for (;;) {
    if (here.largest <= toleranceGrad) return done("gradient");
    if (iterations >= settings.maxIterations) return done("iterations");
    if (evaluations >= settings.maxEvaluations) return done("evaluations");
    const { next, direction, numbers } = turn(history, step, change, here.gradient);
    const [slope, longest] = (await Promise.all(numbers.map(numberOf))) as [number, number];
    if (!(slope < -toleranceChange)) return done("change");
    const from = here;
    const length = settings.learningRate * (iterations === 0 ? Math.min(1, 1 / from.total) : 1);
    const probe = (t: number): Promise<Place> => {
      evaluations++;
      return at(from.leaves, direction, t);
    };
    const found = await strongWolfe(probe, { ...from, t: 0, slope }, length, toleranceChange / longest);
    if (found.t === 0) return done("search");
    [history, here] = [next, found];
    if (here.loss === -Infinity || found.open) return done("unbounded");
    step = direction.map((one) => one.mul(found.t));
    change = found.gradient.map((one, index) => one.sub(from.gradient[index] as Tensor));
    iterations++;
    if (here.largest <= toleranceGrad) return done("gradient");
    const still = Math.abs(here.loss - from.loss) < toleranceChange || found.t * longest <= toleranceChange;
    if (still) return done("change");
  }
}

const zerosOf = ({ shape, dtype }: Tensor): Tensor => zeros(shape, { dtype });
