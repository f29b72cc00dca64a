/**
 * @module What an optimizer is: a record of two pure functions over trees of parameters. State is a tree beside them,
 * empty for plain SGD; its shape never changes.
 *
 *     const optimizer = optim.adam({ learningRate: 1e-3 });
 *     let state = optimizer.init(params);
 *     ({ params, state } = optimizer.update(grads, state, params, { step }));
 */
import { expm1, full, isTensor, type Tensor, type Tensors } from "../tensor/index.ts";
import { HeddleError } from "../util/errors.ts";
import { checkNumber } from "../util/options.ts";
import { flattenTree, unflattenTree } from "../util/tree.ts";

/** The learning rate of a step, counted from 0. It is called on the host, so the program of a step stays the same. */
export type Schedule = (step: number) => number;

/** Options of every optimizer. */
export interface LearningRate {
  /** A number or a schedule. */
  readonly learningRate: number | Schedule;
}

/** What {@link Optimizer.update} is told besides the trees. */
export interface UpdateOptions {
  /** Steps taken before this one: 0 for the first. */
  readonly step: number | Tensor;
  /** Overrides the optimizer's own; needed when `step` is a tensor and the optimizer has a schedule. */
  readonly learningRate?: number | Tensor | undefined;
}

/** New parameters and state. */
export interface Updated<Params> {
  readonly params: Params;
  readonly state: Tensors;
}

/** An update rule. */
export interface Optimizer {
  /** Such as `"sgd"`. */
  readonly name: string;
  readonly learningRate: number | Schedule;
  /** State for these parameters: zeros, or where an option says otherwise. */
  init(params: Tensors): Tensors;
  /** One step; the trees given are not changed. */
  update<Params extends Tensors>(
    grads: Params,
    state: Tensors,
    params: Params,
    options: UpdateOptions,
  ): Updated<Params>;
}

/** The learning rate of a step as a number; throws `option` when it is not finite. */
export function learningRateAt(optimizer: Pick<Optimizer, "name" | "learningRate">, step: number): number {
  const { learningRate, name } = optimizer;
  const value = typeof learningRate === "number" ? learningRate : learningRate(step);
  if (typeof value === "number" && Number.isFinite(value)) return value;
  throw new HeddleError("option", `${name}: the schedule gives learning rate ${String(value)} at step ${step}`);
}

/** The rule of one parameter: from gradient, parameter and its state to the new parameter and state. */
export interface Rule<Slot extends string> {
  readonly name: string;
  readonly learningRate: number | Schedule;
  /** Names of the tensors kept for each parameter. */
  readonly slots: readonly Slot[];
  /** Initial value of the slots; default 0. */
  readonly initial?: number;
  readonly apply: (
    gradient: Tensor,
    parameter: Tensor,
    slots: Readonly<Record<Slot, Tensor>>,
    step: StepScalars,
  ) => { readonly parameter: Tensor; readonly slots: Readonly<Record<Slot, Tensor>> };
}

/** The scalars of a step, in the dtype of the parameter. */
export interface StepScalars {
  readonly learningRate: number | Tensor;
  /** Number of this step, counted from 1. */
  readonly count: number | Tensor;
}

/** Makes an optimizer of a rule that is applied to each parameter by itself. */
export function perParameter<Slot extends string>(rule: Rule<Slot>): Optimizer {
  if (typeof rule.learningRate !== "function") checkNumber(rule.name, "learningRate", rule.learningRate, 0);
  return {
    name: rule.name,
    learningRate: rule.learningRate,
    init(params) {
      const { leaves, shape } = flattenTree(params, isTensor);
      const slot = (): Tensors =>
        unflattenTree(
          shape,
          leaves.map((leaf) => full(leaf.shape, rule.initial ?? 0, { dtype: leaf.dtype })),
        ) as Tensors;
      return Object.fromEntries(rule.slots.map((name) => [name, slot()]));
    },
    update: (grads, state, params, options) => update(rule, grads, state, params, options),
  };
}

function update<Slot extends string, Params extends Tensors>(
  rule: Rule<Slot>,
  grads: Params,
  state: Tensors,
  params: Params,
  options: UpdateOptions,
): Updated<Params> {
  const { leaves, shape, paths } = flattenTree(params, isTensor);
  const leavesOf = (what: string, tree: unknown): readonly Tensor[] => {
    const flat = flattenTree(tree, isTensor);
    const missing = paths.find((path, index) => flat.paths[index] !== path);
    if (missing === undefined && flat.paths.length === paths.length) return flat.leaves;
    throw new HeddleError(
      "tree",
      `${rule.name}: ${what} has no tensor where the parameters have '${missing ?? "none"}'`,
    );
  };
  const gradients = leavesOf("the tree of gradients", grads);
  const slots = rule.slots.map((name) => leavesOf(`the state '${name}'`, state[name]));
  const results = leaves.map((parameter, index) => {
    const own = Object.fromEntries(rule.slots.map((name, slot) => [name, (slots[slot] as readonly Tensor[])[index]]));
    return rule.apply(
      gradients[index] as Tensor,
      parameter,
      own as Record<Slot, Tensor>,
      scalars(rule, options, parameter),
    );
  });
  const tree = (pick: (result: (typeof results)[number]) => Tensor): unknown => unflattenTree(shape, results.map(pick));
  return {
    params: tree((result) => result.parameter) as Params,
    state: Object.fromEntries(rule.slots.map((name) => [name, tree((result) => result.slots[name]) as Tensors])),
  };
}

function scalars(rule: Rule<string>, { step, learningRate }: UpdateOptions, like: Tensor): StepScalars {
  if (learningRate === undefined && typeof rule.learningRate === "function" && typeof step !== "number") {
    throw new HeddleError("option", `${rule.name}: a schedule cannot be asked for the learning rate of a traced step`, {
      hint: "pass { step, learningRate }",
    });
  }
  const rate = learningRate ?? learningRateAt(rule, typeof step === "number" ? step : 0);
  return {
    learningRate: typeof rate === "number" ? rate : rate.cast(like.dtype),
    count: typeof step === "number" ? step + 1 : step.cast(like.dtype).add(1),
  };
}

/** `1 - base^count`, exact for few steps and bases near 1, where the plain difference would cancel. */
export function biasCorrection(base: number, count: number | Tensor): number | Tensor {
  const rate = Math.log(base);
  return typeof count === "number" ? -Math.expm1(count * rate) : expm1(count.mul(rate)).neg();
}
