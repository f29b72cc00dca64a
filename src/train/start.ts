/** @module Putting values on the devices to begin a training with, in place of the model's own. */

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
 * Puts copies of given values on the devices; those not given stay as the run made them.
 *
 * @throws HeddleError `tree` or `shape` naming what is of another model or optimizer.
 */
export async function startValues(
  from: StartValues,
  made: TrainState,
  types: ModelTypes,
  runtime: Runtime,
  layouts: StateLayouts,
): Promise<TrainState> {
  const given = { params: from.params, state: from.state, optimizer: from.optimizerState };
  const values: { -readonly [Group in keyof TrainState]: Tensors } = { ...made };
  for (const group of ["params", "state", "optimizer"] as const) {
    const tree = given[group];
    if (tree === undefined) continue;
    const flat = flattenTree(tree, isTensor);
    const wanted = flattenTree(types.state[group], isTensorType);
    const taken = takenNames(group, from.only, wanted.paths);
    const isTaken = (path: string): boolean => taken.has(path);
    checkNames(group, from.only === undefined ? flat.paths : flat.paths.filter(isTaken), wanted.paths.filter(isTaken));
    const own = flattenTree(made[group], isTensor).leaves;
    const put = async (path: string, type: TensorType): Promise<Tensor> => {
      const leaf = flat.leaves[flat.paths.indexOf(path)] as Tensor;
      if (!sameType(leaf, type))
        throw new HeddleError(
          "shape",
          `train: from: ${group} '${path}' is ${formatType(leaf)}, but of this model and data it is ${formatType(type)}`,
        );
      return distribute(runtime, await wholeData(leaf), type, layouts.kept(`${group}.${path}`));
    };
    const leaves: Tensor[] = [];
    // One after the other: what is kept in parts is gathered, by all workers in one order.
    for (const [index, path] of wanted.paths.entries())
      leaves.push(isTaken(path) ? await put(path, wanted.leaves[index] as TensorType) : (own[index] as Tensor));
    for (const leaf of own) if (!leaves.includes(leaf)) leaf.dispose();
    values[group] = unflattenTree(wanted.shape, leaves) as Tensors;
  }
  return values;
}

/** The names that are taken. @throws HeddleError `option` for a pattern that matches no parameter. */
function takenNames(group: string, only: Pattern | undefined, names: readonly string[]): ReadonlySet<string> {
  if (only === undefined) return new Set(names);
  if (group === "params") checkMatches("train: from.only", only, names);
  return new Set(names.filter(matching("train: from.only", only)));
}

function checkNames(group: string, given: readonly string[], wanted: readonly string[]): void {
  const differs = group === "optimizer" ? keptDifference(given, wanted) : undefined;
  if (differs !== undefined) throw new HeddleError("tree", `train: from: optimizerState ${differs}`);
  const missing = wanted.find((path) => !given.includes(path));
  if (missing !== undefined)
    throw new HeddleError("tree", `train: from: ${group} has no '${missing}'`, {
      hint: `it has ${folded(given)}; to begin with a part, say which: from: { params, only: "body" }`,
    });
  const extra = given.find((path) => !wanted.includes(path));
  if (extra === undefined) return;
  const near = nearest(extra, wanted);
  throw new HeddleError("tree", `train: from: ${group} has '${extra}', which this run has not`, {
    hint: near === undefined ? `this run has ${folded(wanted)}` : `did you mean '${near}'?`,
  });
}
