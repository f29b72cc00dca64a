/**
 * @module The third tree that a training keeps, besides parameters and layer state: the optimizer's state, with the state of the guard
 * (options `nan` and `lossScale`), the moving average (option `ema`) and what compression keeps (option `compression`) if there are any.
 */

import { type CompressionState, initialCompression } from "../compression/state.ts";
import { isTensor, select, type Tensor, type Tensors } from "../functions/index.ts";
import { averaged } from "../optim/optimizer.ts";
import { flattenTree } from "../util/tree.ts";
import { mapTensors } from "./accumulate.ts";
import { type GuardState, initialGuard } from "./guard.ts";
import type { Settings } from "./options.ts";

/** The parts of the tree. */
export interface Kept {
  readonly slots: Tensors;
  readonly guard?: GuardState;
  readonly average?: Tensors;
  readonly compression?: CompressionState;
}

const keepsMore = ({ guard, ema, compression }: Pick<Settings, "guard" | "ema" | "compression">): boolean =>
  guard !== undefined || ema !== undefined || compression !== undefined;

/** The parts of a tree. */
export const unpackKept = (settings: Settings, tree: Tensors): Kept =>
  keepsMore(settings) ? (tree as unknown as Kept) : { slots: tree };

/** A tree of the parts, always in the same order. */
export function packKept(settings: Settings, { slots, guard, average, compression }: Kept): Tensors {
  if (!keepsMore(settings)) return slots;
  const extra = {
    ...(guard === undefined ? {} : { guard }),
    ...(average === undefined ? {} : { average }),
    ...(compression === undefined ? {} : { compression }),
  };
  return { slots, ...extra } as unknown as Tensors;
}

/**
 * The tree before the first step.
 *
 * @param trained the trained parameters, of `params`
 * @param key a random key for this state alone
 */
export function initialKept(
  settings: Settings,
  slots: Tensors,
  params: Tensors,
  trained: Tensors,
  key: Tensor,
): Tensors {
  const { guard, ema, dtype, compression } = settings;
  return packKept(settings, {
    slots,
    ...(guard === undefined ? {} : { guard: initialGuard(guard, dtype) }),
    ...(ema === undefined ? {} : { average: params }),
    ...(compression === undefined ? {} : { compression: initialCompression(compression, trained, key) }),
  });
}

/**
 * The average after a step: after the first step the parameters, then `decay · average + (1 - decay) · parameters`, as in
 * PyTorch's `AveragedModel` with `get_ema_multi_avg_fn(decay)`.
 *
 * @param count number of earlier steps
 */
export function nextAverage(decay: number, average: Tensors, params: Tensors, count: Tensor): Tensors {
  const averages = flattenTree(average, isTensor).leaves;
  const first = count.eq(0);
  let index = 0;
  return mapTensors(params, (parameter) => {
    const before = averages[index++] as Tensor;
    return select(first, parameter, averaged(before, parameter, decay));
  });
}

/** The parameters for evaluation and prediction: the moving average if there is one. */
export const evaluated = (settings: Settings, params: Tensors, tree: Tensors): Tensors =>
  settings.ema === undefined ? params : (unpackKept(settings, tree).average as Tensors);

const parts = [
  ["average", "a moving average of the parameters", "the option ema"],
  ["compression", "what compression has not sent", "the option compression"],
  ["guard", "the state of the guard that rejects steps", 'the options nan: "skip" and lossScale'],
] as const;

/** Describes a part of the tree that one training has and another does not, by the names in their trees; undefined if there is none. */
export function keptDifference(theirs: readonly string[], ours: readonly string[]): string | undefined {
  const has = (names: readonly string[], part: string): boolean => names.some((name) => name.startsWith(`${part}.`));
  for (const [part, what, option] of parts) {
    const [left, right] = [has(theirs, part), has(ours, part)];
    if (left !== right)
      return `${left ? "keeps" : "lacks"} ${what}, which this run ${right ? "keeps" : "does not keep"} (${option})`;
  }
  return undefined;
}
