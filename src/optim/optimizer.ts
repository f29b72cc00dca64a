/**
 * @module What an optimizer is: a record of two pure functions over trees of parameters. The state is a tree of its own,
 * empty for plain SGD, whose structure never changes.
 *
 *     const optimizer = optim.adam({ learningRate: 1e-3 });
 *     let state = optimizer.init(params);
 *     ({ params, state } = optimizer.update(grads, state, params, { step }));
 */

import { expm1, full, isTensor, type Tensor, type Tensors } from "../functions/index.ts";
import { choice, chosenNames, type Named, type Selection } from "../functions/parts.ts";
import { widened } from "../functions/wide.ts";
import { isHalf, wideDType } from "../ir/dtype.ts";
import type { TensorType } from "../ir/shape.ts";
import { checkTensor } from "../tensor/tensor.ts";
import { HeddleError } from "../util/errors.ts";
import { asRecord, checkNumber } from "../util/options.ts";
import { shown } from "../util/show.ts";
import { type FlatTree, flattenTree, unflattenTree } from "../util/tree.ts";

/** The learning rate of a step, counted from 0. It is called on the host, so that the program of a step stays the same. */
export type Schedule = (step: number) => number;

/** Options of every optimizer. */
export interface LearningRate {
  /** A number or a schedule. */
  readonly learningRate: number | Schedule;
}

/** Whether weight decay applies to a parameter, by its name (`"0.weight"`), shape and dtype. */
export type DecayMask = (parameter: Named) => boolean;

/** A {@link DecayMask} for tensors of two or more dims: neither biases nor the weights of norms. */
export const weightsOnly: DecayMask = ({ shape }) => shape.length > 1;

/** Options of optimizers that keep parameters small. */
export interface WeightDecay {
  /** Strength of the decay; each optimizer says whether it is an L2 penalty or decoupled. Default 0. */
  readonly weightDecay?: number;
  /** Which parameters decay: a pattern of names (`"**.weight"`) or a function. Default: all. */
  readonly decayMask?: Selection;
}

/** Names of the options of {@link LearningRate} and {@link WeightDecay}. */
export const commonOptions = ["learningRate", "weightDecay", "decayMask"] as const;

/** Options of {@link Optimizer.update}. */
export interface UpdateOptions {
  /** Number of steps before this one: 0 for the first. */
  readonly step: number | Tensor;
  /**
   * Overrides the optimizer's learning rate; needed when `step` is a tensor and the optimizer has a schedule. An optimizer with parts takes
   * one rate, or a vector with a rate for each part.
   */
  readonly learningRate?: number | Tensor | undefined;
}

/** New parameters and state. */
export interface Updated<Params> {
  readonly params: Params;
  readonly state: Tensors;
}

/** An update rule. */
export interface Optimizer {
  /** The optimizer's name, such as `"sgd"`. */
  readonly name: string;
  readonly learningRate: number | Schedule;
  /** The optimizers that this one is made of, each with its own learning rate; see `groups`. */
  readonly parts?: readonly Optimizer[];
  /** Initial state for these parameters: zeros unless an option says otherwise; f32 for 16-bit floats. */
  init(params: Tensors): Tensors;
  /** One step; it does not change its arguments. */
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
  const value: unknown = typeof learningRate === "function" ? learningRate(step) : learningRate;
  if (typeof value === "number" && Number.isFinite(value)) return value;
  throw new HeddleError("option", `${name}: the schedule gives learning rate ${String(value)} at step ${step}`);
}

/** The learning rates of a step as {@link Optimizer.update} takes them: a vector for an optimizer with parts, otherwise a scalar. */
export function learningRatesAt(
  optimizer: Optimizer,
  step: number,
): { readonly shape: readonly number[]; readonly values: readonly number[] } {
  const { parts } = optimizer;
  if (parts === undefined) return { shape: [], values: [learningRateAt(optimizer, step)] };
  return { shape: [parts.length], values: parts.map((part) => learningRateAt(part, step)) };
}

/**
 * The rule of one parameter: computes the new parameter and state from gradient, parameter and state. It never gets 16-bit floats:
 * they are cast to f32, the state is f32, and the new parameter is rounded.
 */
export interface Rule<Slot extends string> extends LearningRate, WeightDecay {
  readonly name: string;
  /** Names of the state tensors of each parameter, or a function that gives those of a parameter. */
  readonly slots: readonly Slot[] | ((parameter: TensorType) => readonly Slot[]);
  /** Initial values of the slots: a number that fills the parameter's shape, or a function that makes the tensor; default 0. */
  readonly initial?: number | ((slot: Slot, parameter: Tensor) => Tensor);
  readonly apply: (
    gradient: Tensor,
    parameter: Tensor,
    slots: Readonly<Record<Slot, Tensor>>,
    step: StepScalars,
  ) => { readonly parameter: Tensor; readonly slots: Readonly<Partial<Record<Slot, Tensor>>> };
}

/** The scalars of a step, in the dtype that the rule computes in. */
export interface StepScalars {
  readonly learningRate: number | Tensor;
  /** Number of this step, counted from 1. */
  readonly count: number | Tensor;
  /** Weight decay of this parameter: 0 if the mask excludes the parameter. */
  readonly weightDecay: number;
}

/** Makes an optimizer from a rule that is applied to each parameter separately. */
export function perParameter<Slot extends string>(rule: Rule<Slot>): Optimizer {
  const { name, learningRate, weightDecay = 0, decayMask } = asRecord("perParameter", rule);
  if (typeof learningRate !== "function") checkNumber(name, "learningRate", learningRate, 0);
  checkNumber(name, "weightDecay", weightDecay, 0);
  const decays = decayMask === undefined ? undefined : choice(`${name}: decayMask`, decayMask);
  return {
    name,
    learningRate,
    init(params) {
      if (decayMask !== undefined) chosenNames(`${name}: decayMask`, decayMask, params);
      return initial(rule, params);
    },
    update: (grads, state, params, options) => update(rule, decays, grads, state, params, options),
  };
}

const slotsOf = <Slot extends string>({ slots }: Rule<Slot>, parameter: TensorType): readonly Slot[] =>
  typeof slots === "function" ? slots(parameter) : slots;

/** One tree per slot, with the structure of the parameters; an empty record stands for a parameter without that slot. */
function trees<Slot extends string>(
  rule: Rule<Slot>,
  { leaves, shape }: FlatTree<Tensor>,
  value: (slot: Slot, index: number) => Tensor,
): Tensors {
  const names = [...new Set(leaves.flatMap((leaf) => slotsOf(rule, leaf)))];
  const slotNames = leaves.length === 0 && typeof rule.slots !== "function" ? rule.slots : names;
  return Object.fromEntries(
    slotNames.map((slot): [string, Tensors] => {
      const values = leaves.map((leaf, index) => (slotsOf(rule, leaf).includes(slot) ? value(slot, index) : {}));
      return [slot, unflattenTree(shape, values) as Tensors];
    }),
  );
}

function initial<Slot extends string>(rule: Rule<Slot>, params: Tensors): Tensors {
  const flat = flattenTree(params, isTensor);
  const { initial: value = 0 } = rule;
  return trees(rule, flat, (slot, index) => {
    const leaf = flat.leaves[index] as Tensor;
    return typeof value === "function"
      ? value(slot, widened(leaf))
      : full(leaf.shape, value, { dtype: wideDType(leaf.dtype) });
  });
}

function update<Slot extends string, Params extends Tensors>(
  rule: Rule<Slot>,
  decays: DecayMask | undefined,
  grads: Params,
  state: Tensors,
  params: Params,
  options: UpdateOptions,
): Updated<Params> {
  const flat = flattenTree(params, isTensor);
  const { leaves, shape, paths } = flat;
  const gradients = byPath(rule.name, "the tree of gradients", grads);
  const slots = new Map<Slot, (path: string) => Tensor>();
  const slotAt = (slot: Slot, path: string): Tensor => {
    const slotOf = slots.get(slot) ?? byPath(rule.name, `the state '${slot}'`, state[slot]);
    slots.set(slot, slotOf);
    return widened(slotOf(path));
  };
  const results = leaves.map((parameter, index) => {
    const path = paths[index] as string;
    const parameterSlots = Object.fromEntries(slotsOf(rule, parameter).map((slot) => [slot, slotAt(slot, path)]));
    const step = scalars(rule, decays, options, parameter, path);
    const next = rule.apply(widened(gradients(path)), widened(parameter), parameterSlots as Record<Slot, Tensor>, step);
    return { ...next, parameter: isHalf(parameter.dtype) ? next.parameter.cast(parameter.dtype) : next.parameter };
  });
  return {
    params: unflattenTree(
      shape,
      results.map(({ parameter }) => parameter),
    ) as Params,
    state: trees(rule, flat, (slot, index) => results[index]?.slots[slot] as Tensor),
  };
}

/** The tensors of a tree by their paths. */
export function byPath(name: string, what: string, tree: unknown): (path: string) => Tensor {
  const { leaves, paths } = flattenTree(tree, isTensor);
  const tensors = new Map(paths.map((path, index) => [path, leaves[index] as Tensor]));
  return (path) => {
    const tensor = tensors.get(path);
    if (tensor === undefined)
      throw new HeddleError("tree", `${name}: ${what} has no tensor where the parameters have '${path}'`);
    return tensor;
  };
}

/**
 * Learning rate and number of a step, in the dtype that a parameter is computed in.
 *
 * @throws HeddleError `option` for a schedule with a traced step
 */
export function updateRate(
  rule: LearningRate & { readonly name: string },
  { step, learningRate }: UpdateOptions,
  parameter: TensorType,
): Pick<StepScalars, "learningRate" | "count"> {
  if (learningRate === undefined && typeof rule.learningRate === "function" && typeof step !== "number") {
    throw new HeddleError("option", `${rule.name}: a schedule cannot be asked for the learning rate of a traced step`, {
      hint: "pass { step, learningRate }",
    });
  }
  const dtype = wideDType(parameter.dtype);
  const rate = learningRate ?? learningRateAt(rule, typeof step === "number" ? step : 0);
  return {
    learningRate: typeof rate === "number" ? rate : rate.cast(dtype),
    count: typeof step === "number" ? step + 1 : step.cast(dtype).add(1),
  };
}

function scalars(
  rule: Pick<Rule<string>, "name" | "learningRate" | "weightDecay">,
  mask: DecayMask | undefined,
  options: UpdateOptions,
  { shape, dtype }: TensorType,
  name: string,
): StepScalars {
  const { weightDecay = 0 } = rule;
  const decays = weightDecay !== 0 && mask?.({ name, shape, dtype }) !== false;
  return { ...updateRate(rule, options, { shape, dtype }), weightDecay: decays ? weightDecay : 0 };
}

/** The gradient plus the gradient of the penalty `weightDecay / 2 · |parameter|²`. */
export const penalised = (gradient: Tensor, parameter: Tensor, { weightDecay }: StepScalars): Tensor =>
  weightDecay === 0 ? gradient : gradient.add(parameter.mul(weightDecay));

/** The parameter after decoupled weight decay. */
export const shrunk = (parameter: Tensor, { weightDecay, learningRate }: StepScalars): Tensor =>
  weightDecay === 0 ? parameter : parameter.sub(parameter.mul(weightDecay).mul(learningRate));

/** A moving average: `average · decay + value · (1 - decay)`. */
export const averaged = (average: Tensor, value: Tensor, decay: number): Tensor =>
  average.mul(decay).add(value.mul(1 - decay));

/** A scalar of the step as a tensor of a dtype. */
export const asTensor = (value: number | Tensor, { dtype }: Tensor): Tensor =>
  typeof value === "number" ? full([], value, { dtype }) : value;

/** Checks that betas are two numbers in [0, 1). */
export function checkBetas(name: string, betas: readonly [number, number]): void {
  if (!Array.isArray(betas) || betas.length !== 2)
    throw new HeddleError("option", `${name}: betas must be two numbers, such as [0.9, 0.999], got ${shown(betas)}`);
  for (const beta of betas) {
    if (!(beta >= 0 && beta < 1)) throw new HeddleError("option", `${name}: betas must be in [0, 1), got ${beta}`);
  }
}

/**
 * `1 - base^count`, exact for few steps and bases near 1, where the plain difference would cancel.
 *
 * @throws HeddleError `argument` for a count that is neither a number nor a tensor
 */
export function biasCorrection(base: number, count: number | Tensor): number | Tensor {
  if (typeof base !== "number")
    throw new HeddleError("argument", `biasCorrection: base is a number, got ${shown(base)}`);
  const rate = Math.log(base);
  if (typeof count === "number") return -Math.expm1(count * rate);
  checkTensor("biasCorrection", count);
  return expm1(count.mul(rate)).neg();
}
