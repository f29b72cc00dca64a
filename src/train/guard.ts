/**
 * @module Rejects steps whose gradients are not finite. All devices decide together, and every write of the step depends on the
 * decision: a rejected step changes neither parameters nor optimizer state nor layer state.
 *
 * The loss scale of mixed precision (Micikevicius et al., "Mixed Precision Training", 2018) uses it: gradients of a
 * scaled loss overflow sometimes, and the scale is lowered each time.
 */

import { full, isFinite, isTensor, minimum, select, type Tensor } from "../functions/index.ts";
import { isFloat } from "../ir/dtype.ts";
import { HeddleError } from "../util/errors.ts";
import { checkInteger, checkNumber, checkOptions } from "../util/options.ts";
import { flattenTree, unflattenTree } from "../util/tree.ts";

/** Options of the loss scale: the loss is multiplied by the scale before its gradients are taken, and gradients are divided by it. */
export interface LossScaleOptions {
  /** The scale of the first step; default 65536. Powers of two are exact. */
  readonly initial?: number;
  /** The scale is multiplied by this factor after `interval` steps without overflow; default 2. */
  readonly growth?: number;
  /** The scale is multiplied by this factor after an overflow; default 0.5. */
  readonly backoff?: number;
  /** Steps without overflow before the scale grows; default 2000. */
  readonly interval?: number;
}

/** Decides whether the steps of a training are rejected, and scales the loss if `scale` is set. */
export interface Guard {
  readonly scale: Required<LossScaleOptions> | undefined;
}

/** State of a guard: the number of applied steps, the loss scale, and the number of steps since the scale changed (`good`). */
export type GuardState = { readonly applied: Tensor; readonly good?: Tensor; readonly scale?: Tensor };

/**
 * The guard for the options `nan` and `lossScale`; undefined if no step is to be rejected.
 *
 * @throws HeddleError `option`.
 */
export function guardOf(nan: string, lossScale: boolean | LossScaleOptions | undefined): Guard | undefined {
  if (lossScale === undefined || lossScale === false) return nan === "skip" ? { scale: undefined } : undefined;
  const options = lossScale === true ? {} : lossScale;
  if (typeof options !== "object" || options === null) {
    throw new HeddleError("option", `train: lossScale must be true or options, got ${String(lossScale)}`);
  }
  checkOptions("train: lossScale", options, ["initial", "growth", "backoff", "interval"]);
  const { initial = 65536, growth = 2, backoff = 0.5, interval = 2000 } = options;
  checkNumber("train", "lossScale.initial", initial, Number.MIN_VALUE);
  checkNumber("train", "lossScale.growth", growth, 1);
  checkNumber("train", "lossScale.backoff", backoff, Number.MIN_VALUE, 1);
  checkInteger("train", "lossScale.interval", interval, 1);
  return { scale: { initial, growth, backoff, interval } };
}

/** State before the first step. */
export function initialGuard({ scale }: Guard, dtype: "f32" | "f64"): GuardState {
  const zero = full([], 0, { dtype: "i32" });
  return scale === undefined
    ? { applied: zero }
    : { applied: zero, good: zero, scale: full([], scale.initial, { dtype }) };
}

/** Whether every element of every float tensor is finite, on all devices that hold a shard; a bool scalar. */
export function allFinite(tensors: readonly Tensor[]): Tensor {
  const flags = tensors.filter(({ dtype }) => isFloat(dtype)).map((x) => isFinite(x).cast("i32").min());
  return flags.reduce(minimum, full([], 1, { dtype: "i32" })).eq(1);
}

/** `updated` if the step is accepted, else `previous`: trees with the same structure. */
export function accepted<Tree>(ok: Tensor, updated: Tree, previous: Tree): Tree {
  const flat = flattenTree(updated, isTensor);
  const old = flattenTree(previous, isTensor).leaves;
  return unflattenTree(
    flat.shape,
    flat.leaves.map((leaf, index) => select(ok, leaf, old[index] as Tensor)),
  ) as Tree;
}

/** State after a step. */
export function nextGuard({ scale }: Guard, state: GuardState, ok: Tensor): GuardState {
  const applied = state.applied.add(ok.cast("i32"));
  if (scale === undefined) return { applied };
  const { good, scale: before } = state as Required<GuardState>;
  const run = good.add(1);
  const grows = run.ge(scale.interval);
  const after = select(grows, before.mul(scale.growth), before);
  return {
    applied,
    good: select(ok, select(grows, 0, run), 0),
    // An infinite scale would reject every later step.
    scale: select(ok, select(isFinite(after), after, before), before.mul(scale.backoff)),
  };
}
