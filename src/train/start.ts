/** @module Distributes the initial values of the option `from` to the devices. */

import { distribute, isTensor, type Tensor, type Tensors } from "../functions/index.ts";
import { formatType, isTensorType, sameType, type TensorType } from "../ir/shape.ts";
import type { Runtime } from "../runtime/devices.ts";
import { HeddleError } from "../util/errors.ts";
import { nearest } from "../util/options.ts";
import { checkMatches, folded, matching, type Pattern } from "../util/pattern.ts";
import { flattenTree, unflattenTree } from "../util/tree.ts";
import { keptDifference } from "./kept.ts";
import type { StateLayouts } from "./layouts.ts";
import type { StartValues } from "./start-values.ts";
import { wholeData } from "./state.ts";
import type { ModelTypes, TrainState } from "./values.ts";

/**
 * Distributes copies of the values in `from`; the other values stay as in `initial`.
 *
 * @throws HeddleError `tree` or `shape` naming a value that does not fit the model or the optimizer.
 */
export async function startValues(
  from: StartValues,
  initial: TrainState,
  types: ModelTypes,
  runtime: Runtime,
  layouts: StateLayouts,
): Promise<TrainState> {
  const trees = { params: from.params, state: from.state, optimizer: from.optimizerState };
  const values: { -readonly [Group in keyof TrainState]: Tensors } = { ...initial };
  for (const group of ["params", "state", "optimizer"] as const) {
    const tree = trees[group];
    if (tree === undefined) continue;
    const flat = flattenTree(tree, isTensor);
    const wanted = flattenTree(types.state[group], isTensorType);
    const taken = takenNames(group, from.only, wanted.paths);
    const isTaken = (path: string): boolean => taken.has(path);
    checkNames(group, from.only === undefined ? flat.paths : flat.paths.filter(isTaken), wanted.paths.filter(isTaken));
    const before = flattenTree(initial[group], isTensor).leaves;
    const put = async (path: string, type: TensorType): Promise<Tensor> => {
      const leaf = flat.leaves[flat.paths.indexOf(path)] as Tensor;
      if (!sameType(leaf, type))
        throw new HeddleError(
          "shape",
          `train: from: ${group} '${path}' is ${formatType(leaf)}, but this model and data need ${formatType(type)}`,
        );
      return distribute(runtime, await wholeData(leaf), type, layouts.kept(`${group}.${path}`));
    };
    const leaves: Tensor[] = [];
    // Sequentially: sharded values are gathered, and all workers must gather them in the same order.
    for (const [index, path] of wanted.paths.entries())
      leaves.push(isTaken(path) ? await put(path, wanted.leaves[index] as TensorType) : (before[index] as Tensor));
    for (const leaf of before) if (!leaves.includes(leaf)) leaf.dispose();
    values[group] = unflattenTree(wanted.shape, leaves) as Tensors;
  }
  return values;
}

/** The names of the values to use. @throws HeddleError `option` for a pattern that matches no parameter. */
function takenNames(group: string, only: Pattern | undefined, names: readonly string[]): ReadonlySet<string> {
  if (only === undefined) return new Set(names);
  if (group === "params") checkMatches("train: from.only", only, names);
  return new Set(names.filter(matching("train: from.only", only)));
}

function checkNames(group: string, names: readonly string[], wanted: readonly string[]): void {
  const difference = group === "optimizer" ? keptDifference(names, wanted) : undefined;
  if (difference !== undefined) throw new HeddleError("tree", `train: from: optimizerState ${difference}`);
  const missing = wanted.find((path) => !names.includes(path));
  if (missing !== undefined)
    throw new HeddleError("tree", `train: from: ${group} has no '${missing}'`, {
      hint: `it has ${folded(names)}; to use some of the values, name them: from: { params, only: "body" }`,
    });
  const extra = names.find((path) => !wanted.includes(path));
  if (extra === undefined) return;
  const near = nearest(extra, wanted);
  throw new HeddleError("tree", `train: from: ${group} has '${extra}', which this run does not have`, {
    hint: near === undefined ? `this run has ${folded(wanted)}` : `did you mean '${near}'?`,
  });
}
