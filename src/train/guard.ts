/**
 * @module Steps that may be rejected: whether the gradients are finite is decided once, over all devices, and every
 * write of the step depends on it. A rejected step leaves parameters, optimizer state and layer state as they were.
 *
 * The loss scale of mixed precision (Micikevicius et al., "Mixed Precision Training", 2018) rests on it: gradients of a
 * scaled loss overflow now and then, and the scale is lowered when they do.
 */

import { full, isFinite, isTensor, minimum, select, type Tensor } from "../functions/index.ts";
import { isFloat } from "../ir/dtype.ts";
import { HeddleError } from "../util/errors.ts";
import { checkInteger, checkNumber, checkOptions } from "../util/options.ts";
import { flattenTree, unflattenTree } from "../util/tree.ts";

/** The scale that a loss is multiplied by before its gradients are taken; gradients are divided by it again. */
export interface LossScaleOptions {
  /** Of the first step; default 65536. Powers of two lose nothing. */
  readonly initial?: number;
  /** What the scale is multiplied by after `interval` steps without overflow; default 2. */
  readonly growth?: number;
  /** What it is multiplied by after an overflow; default 0.5. */
  readonly backoff?: number;
  /** Default 2000. */
  readonly interval?: number;
}

/** What guards the steps of a training. */
export interface Guard {
  readonly scale: Required<LossScaleOptions> | undefined;
}

/** State of a guard: `applied` counts the steps that were not rejected, `scale` and `good` those of the loss scale. */
export type GuardState = { readonly applied: Tensor; readonly good?: Tensor; readonly scale?: Tensor };

/**
 * The guard that options ask for, if any.
 *
 * @throws HeddleError `option`.
 */
export function guardOf(nan: string, lossScale: boolean | LossScaleOptions | undefined): Guard | undefined {
  if (lossScale === undefined || lossScale === false) return nan === "skip" ? { scale: undefined } : undefined;
  const given = lossScale === true ? {} : lossScale;
  if (typeof given !== "object" || given === null) {
    throw new HeddleError("option", `train: lossScale must be true or options, got ${String(lossScale)}`);
  }
  checkOptions("train: lossScale", given, ["initial", "growth", "backoff", "interval"]);
  const { initial = 65536, growth = 2, backoff = 0.5, interval = 2000 } = given;
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

/** Whether every element of every tensor is finite, on all devices that hold parts of them; a bool scalar. */
export function allFinite(tensors: readonly Tensor[]): Tensor {
  const flags = tensors.filter(({ dtype }) => isFloat(dtype)).map((x) => isFinite(x).cast("i32").min());
  return flags.reduce(minimum, full([], 1, { dtype: "i32" })).eq(1);
}

/** `updated` where a step is accepted, else `previous`: trees of the same form. */
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
    // A scale that overflows itself would reject every step from then on.
    scale: select(ok, select(isFinite(after), after, before), before.mul(scale.backoff)),
  };
}
