/** @module Minimising a function by L-BFGS with a line search for the strong Wolfe conditions. */
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
  /** Largest number of steps; default 100 (PyTorch: 20). */
  readonly maxIterations?: number;
  /** Largest number of evaluations of the function; default: 25 per step. A line search that has begun is finished first. */
  readonly maxEvaluations?: number;
  /** The first step length that a line search tries; in the first step at most this over the gradient's absolute sum. Default 1. */
  readonly learningRate?: number;
  /** Number of steps that are remembered, each as two copies of the parameters; default 10 (PyTorch: 100). */
  readonly historySize?: number;
  /** Ends when no element of the gradient is larger; default 1e-7. */
  readonly toleranceGrad?: number;
  /** Ends when the loss, or every parameter, changes by less; default 1e-9. */
  readonly toleranceChange?: number;
}

/** The result of {@link minimize}. */
export interface Minimum<Params> {
  readonly params: Params;
  readonly loss: number;
  readonly iterations: number;
  readonly evaluations: number;
  /**
   * Why the search ended: the gradient or the change is below its tolerance, the limit of steps or evaluations is reached, the line search
   * found no lower point, or the function falls without end (`"unbounded"`): to minus infinity, or along the longest steps that are
   * tried.
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

/** The current point of the search: parameters, loss and gradient. */
interface Place extends Point {
  readonly leaves: Vector;
  readonly gradient: Vector;
  /** Maximum and sum of the gradient's absolute values. */
  readonly largest: number;
  readonly total: number;
}

const largestOf = (x: Vector): Tensor =>
  x.map((tensor) => tensor.abs().max()).reduce((largest, next) => largest.maximum(next));
const totalOf = (x: Vector): Tensor => x.map((tensor) => tensor.abs().sum()).reduce((sum, next) => sum.add(next));
const numberOf = async (x: Tensor): Promise<number> => Number(await x.item());

/** @throws HeddleError `shape` unless a loss is a float scalar. */
function scalarLoss(loss: unknown): Tensor {
  if (isTensor(loss) && loss.shape.length === 0 && isFloat(loss.dtype)) return loss;
  const received = isTensor(loss) ? formatType(loss) : shown(loss);
  throw new HeddleError("shape", `minimize: the loss must be a float scalar, got ${received}`, {
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
    const point = plus(from, direction, t);
    const { value, grad } = lossAndGrad(unflattenTree(shape, [...point]) as Tensors);
    const gradient = flattenTree(grad, isTensor).leaves;
    const numbers = [value, dot(gradient, direction), largestOf(gradient), totalOf(gradient)];
    return { point, gradient, numbers };
  });
  const nextDirection = jit((history: History, step: Vector, change: Vector, gradient: Vector) => {
    const next = remembered(history, step, change);
    const direction = directionOf(next, gradient);
    return { next, direction, numbers: [dot(gradient, direction), largestOf(direction)] };
  });
  const { dtype } = leaves[0] as Tensor;
  return {
    nextDirection,
    evaluateAt: async (from: Vector, direction: Vector, t: number): Promise<Place> => {
      const probed = probe(from, direction, zeros([], { dtype }).add(t));
      const numbers = await Promise.all(probed.numbers.map(numberOf));
      const [value, slope, largest, total] = numbers as [number, number, number, number];
      return { t, loss: value, slope, largest, total, leaves: probed.point, gradient: probed.gradient };
    },
  };
}

/**
 * Finds the parameters that minimise a function, by L-BFGS (Nocedal, 1980) with a line search for the strong Wolfe conditions (Nocedal and
 * Wright, "Numerical optimization", algorithms 3.5 and 3.6, with their constants 1e-4 and 0.9): like PyTorch's `LBFGS` with
 * `line_search_fn="strong_wolfe"`. For whole batches: the function must give the same value each time it is called.
 *
 * @param loss computes a float scalar from the parameters by tensor operations; it is compiled, with its gradient
 * @param params initial values: floats of one dtype; 16-bit floats are searched in f32
 * @throws HeddleError `tree` or `dtype` for other parameters; `option`; `value` when the first loss or gradient is not finite
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
  const flat = flattenTree(params, isTensor);
  // 16-bit parameters are searched in f32.
  const wide = unflattenTree(flat.shape, flat.leaves.map(widened)) as Params;
  const { leaves: first, shape } = parametersOf("minimize", wide);
  const { dtype } = parametersOf("minimize", params).leaves[0] as Tensor;
  const { evaluateAt, nextDirection } = compiled(loss, wide);
  let history = emptyHistory(first, settings.historySize);
  // The step before the first is 0, and is not remembered.
  let [step, change]: [Vector, Vector] = [first.map(zerosOf), first.map(zerosOf)];
  let current = await evaluateAt(first, step, 0);
  if (!Number.isFinite(current.loss + current.total))
    throw new HeddleError(
      "value",
      `minimize: the first loss is ${current.loss}, the sum of its gradient ${current.total}`,
    );
  let [iterations, evaluations] = [0, 1];
  const done = (reason: Minimum<Params>["reason"]): Minimum<Params> => ({
    params: unflattenTree(
      shape,
      current.leaves.map((leaf) => leaf.cast(dtype)),
    ) as Params,
    loss: current.loss,
    iterations,
    evaluations,
    reason,
  });
  for (;;) {
    if (current.largest <= toleranceGrad) return done("gradient");
    if (iterations >= settings.maxIterations) return done("iterations");
    if (evaluations >= settings.maxEvaluations) return done("evaluations");
    const { next, direction, numbers } = nextDirection(history, step, change, current.gradient);
    const [slope, longest] = (await Promise.all(numbers.map(numberOf))) as [number, number];
    if (!(slope < -toleranceChange)) return done("change");
    const from = current;
    const length = settings.learningRate * (iterations === 0 ? Math.min(1, 1 / from.total) : 1);
    const probe = (t: number): Promise<Place> => {
      evaluations++;
      return evaluateAt(from.leaves, direction, t);
    };
    const best = await strongWolfe(probe, { ...from, t: 0, slope }, length, toleranceChange / longest);
    if (best.t === 0) return done("search");
    [history, current] = [next, best];
    if (current.loss === -Infinity || best.open) return done("unbounded");
    step = direction.map((tensor) => tensor.mul(best.t));
    change = best.gradient.map((tensor, index) => tensor.sub(from.gradient[index] as Tensor));
    iterations++;
    if (current.largest <= toleranceGrad) return done("gradient");
    const isUnchanged = Math.abs(current.loss - from.loss) < toleranceChange || best.t * longest <= toleranceChange;
    if (isUnchanged) return done("change");
  }
}

const zerosOf = ({ shape, dtype }: Tensor): Tensor => zeros(shape, { dtype });
