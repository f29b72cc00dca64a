/** @module L-BFGS: steps by an approximation of the second derivative from the last steps (Nocedal, 1980). */
import {
  and,
  concat,
  full,
  isTensor,
  minimum,
  not,
  select,
  type Tensor,
  type Tensors,
  zeros,
} from "../functions/index.ts";
import { inFloat32, widened } from "../functions/wide.ts";
import { wideDType } from "../ir/dtype.ts";
import { HeddleError } from "../util/errors.ts";
import { checkInteger, checkNumber, checkOptions } from "../util/options.ts";
import { flattenTree, unflattenTree } from "../util/tree.ts";
import {
  asTensor,
  byPath,
  type LearningRate,
  type Optimizer,
  type Updated,
  type UpdateOptions,
  updateRate,
} from "./optimizer.ts";

/** Options of {@link lbfgs}. */
export interface LbfgsOptions extends LearningRate {
  /** Number of steps that are remembered, each as two copies of the parameters; default 10 (PyTorch: 100). */
  readonly historySize?: number;
  /** No step is taken when no element of the gradient is larger; default 1e-7. */
  readonly toleranceGrad?: number;
  /** No step is taken when the loss would fall by less, to first order and at learning rate 1; default 1e-9. */
  readonly toleranceChange?: number;
}

/**
 * L-BFGS as PyTorch's `LBFGS` with `max_iter=1` and no line search: one evaluation per step, for whole batches. The first step
 * is along the gradient, no longer than the learning rate; {@link minimize} searches for the length of each step. The usual learning
 * rate is 1. All parameters must have one dtype. 16-bit parameters are computed in f32, and their history is f32.
 */
export function lbfgs(options: LbfgsOptions): Optimizer {
  checkOptions("lbfgs", options, ["learningRate", "historySize", "toleranceGrad", "toleranceChange"]);
  const { learningRate, historySize = 10, toleranceGrad = 1e-7, toleranceChange = 1e-9 } = options;
  if (typeof learningRate !== "function") checkNumber("lbfgs", "learningRate", learningRate, 0);
  checkInteger("lbfgs", "historySize", historySize, 1);
  checkNumber("lbfgs", "toleranceGrad", toleranceGrad, 0);
  checkNumber("lbfgs", "toleranceChange", toleranceChange, 0);
  const settings: Settings = { learningRate, historySize, toleranceGrad, toleranceChange };
  return {
    name: "lbfgs",
    learningRate,
    init: (params) => initial(params, historySize),
    update: (grads, state, params, step) => update(settings, grads, state, params, step),
  };
}

type Settings = Required<LbfgsOptions>;

const treeNames = ["gradient", "step", "steps", "changes"] as const;

/** The parameters of a tree. @throws HeddleError `tree` for a tree without parameters; `dtype` when the parameters have different dtypes. */
export function parametersOf(what: string, params: Tensors) {
  const flat = flattenTree(params, isTensor);
  const [first] = flat.leaves;
  if (first === undefined) throw new HeddleError("tree", `${what}: there is no parameter in the tree`);
  const other = flat.leaves.find((leaf) => leaf.dtype !== first.dtype);
  if (other !== undefined)
    throw new HeddleError(
      "dtype",
      `${what}: parameters must have one dtype, these have ${first.dtype} and ${other.dtype}`,
    );
  return flat;
}

/** The history before the first step. */
export function emptyHistory(leaves: Vector, size: number): History {
  const dtype = wideDType((leaves[0] as Tensor).dtype);
  const rows = (): Vector => leaves.map((leaf) => zeros([size, ...leaf.shape], { dtype }));
  return {
    steps: rows(),
    changes: rows(),
    curvatures: zeros([size], { dtype }),
    scale: full([], 1, { dtype }),
  };
}

function initial(params: Tensors, size: number): Tensors {
  const { leaves, shape } = parametersOf("lbfgs", params);
  const tree = (list: Vector): Tensors => unflattenTree(shape, [...list]) as Tensors;
  const none = (): Tensors => tree(leaves.map(({ dtype, shape }) => zeros(shape, { dtype: wideDType(dtype) })));
  const { steps, changes, curvatures, scale } = emptyHistory(leaves, size);
  return { gradient: none(), step: none(), steps: tree(steps), changes: tree(changes), curvatures, scale };
}

/** Tensors of all parameters, in their order. */
export type Vector = readonly Tensor[];

/** The inner product of two vectors. */
export const dot = (x: Vector, y: Vector): Tensor =>
  x.map((tensor, index) => tensor.mul(y[index] as Tensor).sum()).reduce((sum, next) => sum.add(next));

/** `x + factor · y`. */
export const plus = (x: Vector, y: Vector, factor: Tensor): Vector =>
  x.map((tensor, index) => tensor.add((y[index] as Tensor).mul(factor)));

/** A row of a history. */
const rowOf = (history: Tensor, row: number): Tensor => {
  const [, ...shape] = history.shape;
  return history.slice([row, ...shape.map(() => 0)], [row + 1, ...shape]).reshape(shape);
};

/** The history without its oldest row, followed by a new row. */
function shifted(history: Tensor, row: Tensor): Tensor {
  const [size, ...shape] = history.shape as [number, ...number[]];
  return concat([history.slice([1, ...shape.map(() => 0)], [size, ...shape]), row.reshape([1, ...shape])]);
}

/** The last steps, and the change of the gradient in each. */
export interface History {
  readonly steps: Vector;
  readonly changes: Vector;
  /** 1 over the product of each step and change; 0 for steps not yet taken. */
  readonly curvatures: Tensor;
  /** The initial approximation of the inverse second derivative, as a scalar. */
  readonly scale: Tensor;
}

/** Adds the last step to the history if the slope has grown along it. */
export function remembered(history: History, step: Vector, change: Vector): History {
  const product = dot(change, step);
  const isRemembered = product.gt(1e-10);
  const safe = select(isRemembered, product, 1);
  const next = (list: Vector, rows: Vector): Vector =>
    list.map((tensor, index) => select(isRemembered, shifted(tensor, rows[index] as Tensor), tensor));
  return {
    steps: next(history.steps, step),
    changes: next(history.changes, change),
    curvatures: select(
      isRemembered,
      shifted(history.curvatures, full([], 1, { dtype: product.dtype }).div(safe)),
      history.curvatures,
    ),
    scale: select(isRemembered, product.div(select(isRemembered, dot(change, change), 1)), history.scale),
  };
}

/** Minus the gradient times the inverse of the second derivative: the two-loop recursion. */
export function directionOf({ steps, changes, curvatures, scale }: History, gradient: Vector): Vector {
  const rows = Array.from({ length: curvatures.shape[0] as number }, (_unused, row) => ({
    step: steps.map((tensor) => rowOf(tensor, row)),
    change: changes.map((tensor) => rowOf(tensor, row)),
    curvature: rowOf(curvatures, row),
  }));
  let direction: Vector = gradient.map((tensor) => tensor.neg());
  const shares = [...rows].reverse().map(({ step, change, curvature }) => {
    const share = dot(step, direction).mul(curvature);
    direction = plus(direction, change, share.neg());
    return share;
  });
  direction = direction.map((tensor) => tensor.mul(scale));
  rows.forEach(({ step, change, curvature }, index) => {
    const share = shares[rows.length - 1 - index] as Tensor;
    direction = plus(direction, step, share.sub(dot(change, direction).mul(curvature)));
  });
  return direction;
}

function update<Params extends Tensors>(
  settings: Settings,
  grads: Params,
  state: Tensors,
  params: Params,
  options: UpdateOptions,
): Updated<Params> {
  const flat = flattenTree(params, isTensor);
  const vector = (what: string, tree: unknown): Vector => flat.paths.map(byPath("lbfgs", what, tree)).map(widened);
  const gradient = vector("the tree of gradients", grads);
  const first = gradient[0] as Tensor;
  const [lastGradient, step, steps, changes] = treeNames.map((name) => vector(`the state '${name}'`, state[name])) as [
    Vector,
    Vector,
    Vector,
    Vector,
  ];
  const { learningRate, count } = updateRate({ name: "lbfgs", ...settings }, options, first);
  const oldHistory = {
    steps,
    changes,
    curvatures: widened(state["curvatures"] as Tensor),
    scale: widened(state["scale"] as Tensor),
  };
  // The step before the first is 0, and is not remembered.
  const history = remembered(oldHistory, step, plus(gradient, lastGradient, full([], -1, { dtype: first.dtype })));
  const direction = directionOf(history, gradient);
  const size = stepSize(gradient, asTensor(count, first), asTensor(learningRate, first));
  const moves = isStepTaken(settings, gradient, direction);
  const move = direction.map((tensor) => select(moves, tensor.mul(size), 0));
  const tree = (values: Vector): Tensors => unflattenTree(flat.shape, [...values]) as Tensors;
  return {
    params: tree(flat.leaves.map((leaf, index) => inFloat32([leaf], (x) => x.add(move[index] as Tensor)))) as Params,
    state: {
      gradient: tree(gradient),
      step: tree(move),
      steps: tree(history.steps),
      changes: tree(history.changes),
      curvatures: history.curvatures,
      scale: history.scale,
    },
  };
}

/** The step size: the learning rate; in the first step the absolute values of the step sum to at most the learning rate. */
function stepSize(gradient: Vector, count: Tensor, rate: Tensor): Tensor {
  const length = gradient.map((tensor) => tensor.abs().sum()).reduce((sum, next) => sum.add(next));
  return select(count.eq(1), minimum(full([], 1, { dtype: length.dtype }).div(length), 1).mul(rate), rate);
}

/** Whether the gradient is large enough and the direction descends. NaN counts as true, so that it is not hidden. */
function isStepTaken({ toleranceGrad, toleranceChange }: Settings, gradient: Vector, direction: Vector): Tensor {
  const flat = gradient
    .map((tensor) => tensor.abs().max())
    .reduce((largest, next) => largest.maximum(next))
    .le(toleranceGrad);
  return and(not(flat), not(dot(gradient, direction).gt(-toleranceChange)));
}
