/**
 * @module What a training keeps beside parameters and layer state, as one tree: the optimizer's own state, or that with the
 * guard's of `nan` and `lossScale` and the moving average of `ema`.
 */

import { isTensor, select, type Tensor, type Tensors } from "../functions/index.ts";
import { averaged } from "../optim/optimizer.ts";
import { flattenTree } from "../util/tree.ts";
import { mapTensors } from "./accumulate.ts";
import { type GuardState, initialGuard } from "./guard.ts";
import type { Settings } from "./options.ts";

/** The tree's parts. */
export interface Kept {
  readonly slots: Tensors;
  readonly guard?: GuardState;
  readonly average?: Tensors;
}

const keepsMore = ({ guard, ema }: Pick<Settings, "guard" | "ema">): boolean =>
  guard !== undefined || ema !== undefined;

/** The parts of a tree. */
export const unpackKept = (settings: Settings, kept: Tensors): Kept =>
  keepsMore(settings) ? (kept as unknown as Kept) : { slots: kept };

/** A tree of the parts, in this order whatever theirs. */
export function packKept(settings: Settings, { slots, guard, average }: Kept): Tensors {
  if (!keepsMore(settings)) return slots;
  const more = { ...(guard === undefined ? {} : { guard }), ...(average === undefined ? {} : { average }) };
  return { slots, ...more } as unknown as Tensors;
}

/** What a training keeps before its first step. */
export function initialKept(settings: Settings, slots: Tensors, params: Tensors): Tensors {
  const { guard, ema, dtype } = settings;
  return packKept(settings, {
    slots,
    ...(guard === undefined ? {} : { guard: initialGuard(guard, dtype) }),
    ...(ema === undefined ? {} : { average: params }),
  });
}

/**
 * The average after a step: the parameters themselves after the first, then `decay · average + (1 - decay) · parameters`, as
 * PyTorch's `AveragedModel` with `get_ema_multi_avg_fn(decay)`.
 *
 * @param count steps taken before this one
 */
export function nextAverage(decay: number, average: Tensors, params: Tensors, count: Tensor): Tensors {
  const known = flattenTree(average, isTensor).leaves;
  const first = count.eq(0);
  let index = 0;
  return mapTensors(params, (parameter) => {
    const before = known[index++] as Tensor;
    return select(first, parameter, averaged(before, parameter, decay));
  });
}

/** The parameters to evaluate and predict with: their moving average where one is kept. */
export const evaluated = (settings: Settings, params: Tensors, kept: Tensors): Tensors =>
  settings.ema === undefined ? params : (unpackKept(settings, kept).average as Tensors);

const parts = [
  ["average", "a moving average of the parameters", "the option ema"],
  ["guard", "what rejects steps", 'the options nan: "skip" and lossScale'],
] as const;

/** What one training keeps beside the optimizer's own state and another does not, by the names in their trees; in words. */
export function keptDifference(theirs: readonly string[], ours: readonly string[]): string | undefined {
  const has = (names: readonly string[], part: string): boolean => names.some((name) => name.startsWith(`${part}.`));
  for (const [part, what, option] of parts) {
    const [left, right] = [has(theirs, part), has(ours, part)];
    if (left !== right)
      return `${left ? "keeps" : "lacks"} ${what}, which this run ${right ? "keeps" : "does not keep"} (${option})`;
  }
  return undefined;
}
