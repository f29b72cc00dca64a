/** @module Parts of trees of parameters: chosen by name or by a function, taken out as a tree, and put back. */
import type { TensorType } from "../ir/shape.ts";
import { isTensor, type Tensor } from "../tensor/tensor.ts";
import { HeddleError } from "../util/errors.ts";
import { checkMatches, isPattern, matching, type Pattern } from "../util/pattern.ts";
import { shown } from "../util/show.ts";
import { flattenTree, unflattenTree } from "../util/tree.ts";
import type { Tensors } from "./tensors.ts";

/** A parameter for a choice: its name, such as `"0.weight"`, shape and dtype. */
export interface Named extends TensorType {
  readonly name: string;
}

/** A choice of parameters: a pattern of names (`"head"`, `"**.bias"`), a list of patterns, or a function of a parameter. */
export type Selection = Pattern | ((parameter: Named) => boolean);

/** A choice as a function. @throws HeddleError `option` for a malformed choice. */
export function choice(what: string, selection: Selection): (parameter: Named) => boolean {
  if (typeof selection === "function") return selection;
  if (!isPattern(selection))
    throw new HeddleError(
      "option",
      `${what} must be a pattern, or a function of a parameter, got ${shown(selection)}`,
      {
        hint: 'such as "head", ["**.bias", "!head"], or ({ name, shape }) => shape.length > 1',
      },
    );
  const matches = matching(what, selection);
  return ({ name }) => matches(name);
}

/**
 * The names of the chosen leaves of a tree.
 *
 * @throws HeddleError `option` for a pattern that matches no name
 */
export function chosenNames(what: string, selection: Selection, tree: Tensors): ReadonlySet<string> {
  const { leaves, paths } = flattenTree<Tensor>(tree, isTensor);
  const chosen = choice(what, selection);
  if (typeof selection !== "function") checkMatches(what, selection, paths);
  return new Set(
    paths.filter((name, index) => {
      const { shape, dtype } = leaves[index] as Tensor;
      return chosen({ name, shape, dtype });
    }),
  );
}

/** The tree of the leaves with these names. Names stay the same: positions in arrays become names. */
export function partOf(tree: Tensors, names: ReadonlySet<string>, isLeaf: (x: unknown) => boolean = isTensor): Tensors {
  const part: { [name: string]: unknown } = {};
  const { leaves, paths } = flattenTree(tree, isLeaf as typeof isTensor);
  for (const [index, path] of paths.entries()) {
    if (!names.has(path)) continue;
    const steps = path.split(".");
    const last = steps.pop() as string;
    let at = part;
    for (const step of steps) {
      at[step] ??= {};
      at = at[step] as typeof part;
    }
    at[last] = leaves[index];
  }
  return part as Tensors;
}

/** The tree with its leaves replaced by leaves of `parts` with the same names. */
export function withParts<Tree extends Tensors>(tree: Tree, ...parts: readonly Tensors[]): Tree {
  const { leaves, paths, shape } = flattenTree<Tensor>(tree, isTensor);
  const known = new Map(
    parts.flatMap((part) => {
      const flat = flattenTree<Tensor>(part, isTensor);
      return flat.paths.map((path, index): [string, Tensor] => [path, flat.leaves[index] as Tensor]);
    }),
  );
  return unflattenTree(
    shape,
    leaves.map((leaf, index) => known.get(paths[index] as string) ?? leaf),
  ) as Tree;
}
