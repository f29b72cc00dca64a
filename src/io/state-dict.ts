/** @module Trees of tensors as safetensors files by dotted names, as state dicts are. */
import { isTensor, type Tensor, type Tensors } from "../functions/index.ts";
import { isTensorType } from "../ir/shape.ts";
import type { Variables } from "../nn/index.ts";
import { HeddleError, within } from "../util/errors.ts";
import { checkOptions, chosenBy } from "../util/options.ts";
import { shown } from "../util/show.ts";
import { called } from "../util/source.ts";
import { flattenTree, isRecord } from "../util/tree.ts";
import { hostByName, toHost, toTensor } from "./host-tensors.ts";
import { openedBy, savedBy } from "./safetensors.ts";

/** @throws HeddleError `argument` naming a leaf of a tree that is not a tensor, which no file holds. */
function checkAllTensors(what: string, tree: unknown): void {
  const isEnd = (value: unknown): value is unknown => isTensor(value) || !(Array.isArray(value) || isRecord(value));
  const { leaves, paths } = flattenTree<unknown>(tree, isEnd);
  const at = leaves.findIndex((leaf) => !isTensor(leaf));
  if (at < 0) return;
  const where = paths[at] === "" ? "" : ` at '${paths[at]}'`;
  throw new HeddleError(
    "argument",
    `${what}: takes a tree of tensors after the path, got ${shown(leaves[at])}${where}`,
    {
      hint: "make tensors of numbers and arrays: tensor(…)",
    },
  );
}

/** Variables without the type of the output, which `init` gives with them. */
function withoutOutput(tensors: Tensors | Variables<object>): Tensors {
  if (!isRecord(tensors) || !("params" in tensors && "output" in tensors && isTensorType(tensors["output"])))
    return tensors as Tensors;
  const { output: _type, ...variables } = tensors as { readonly [name: string]: unknown };
  return variables as Tensors;
}

/**
 * Writes a tree of tensors (`params`, or the variables of a layer, as `init` gives them) as a safetensors file by
 * dotted names, which PyTorch reads with `safetensors.torch.load_file`. It appears whole or not at all.
 *
 * @throws HeddleError `argument` for a leaf that is not a tensor; `layout` when this process holds only a part of a
 * tensor; `tree` when two have one name, or the tree contains itself; `file` when it cannot be written, `disk` when it
 * does not fit.
 */
export function saveTensors(
  path: string,
  tensors: Tensors | Variables<object>,
  options: { readonly metadata?: { readonly [key: string]: string } } = {},
): Promise<void> {
  return called(async () => {
    checkOptions("saveTensors", options, ["metadata"]);
    const tree = withoutOutput(tensors);
    within("saveTensors", () => checkAllTensors("saveTensors", tree));
    const metadata = new Map(Object.entries(options.metadata ?? {}));
    await savedBy("saveTensors", path, await hostByName("saveTensors", [tree], toHost), { metadata });
  });
}

/** Options of {@link loadTensors}. */
export interface LoadTensorsOptions {
  /** Which tensors to read, by name; default all. The bytes of other tensors are not read. */
  readonly only?: (name: string) => boolean;
}

/**
 * The tensors of a safetensors file by name.
 *
 * @throws HeddleError `format`; `dtype` for a tensor of a dtype that Heddle lacks (`only` can leave it out); `file`
 * when it cannot be read.
 */
export function loadTensors(path: string, options: LoadTensorsOptions = {}): Promise<Record<string, Tensor>> {
  return called(async () => {
    checkOptions("loadTensors", options, ["only"]);
    const only = chosenBy("loadTensors", options.only);
    const file = await openedBy("loadTensors", path);
    try {
      const tensors: [string, Tensor][] = [];
      for (const name of file.entries.keys()) if (only(name)) tensors.push([name, toTensor(await file.read(name))]);
      return Object.fromEntries(tensors);
    } finally {
      await file.close();
    }
  });
}
