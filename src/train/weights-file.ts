/** @module The weights of a model as a file that any reader of safetensors knows: names as PyTorch's `state_dict`. */

import { type HostTensors, type SaveSafetensorsOptions, saveSafetensors } from "../io/safetensors.ts";
import type { HostTensor } from "../ir/node.ts";
import { isTensor, type Tensor, type Tensors } from "../tensor/index.ts";
import { HeddleError } from "../util/errors.ts";
import { flattenTree } from "../util/tree.ts";
import { wholeData } from "./state.ts";

/**
 * Copies parameters and layer state to the host, by their paths (`"0.weight"`). What is kept in parts is gathered, for which every
 * worker must call it.
 *
 * @throws HeddleError `tree` when a parameter and a state have one name
 */
export async function exportWeights(values: {
  readonly params: Tensors;
  readonly state: Tensors;
}): Promise<HostTensors> {
  const tensors = new Map<string, HostTensor>();
  for (const group of [values.params, values.state]) {
    const { leaves, paths } = flattenTree(group, isTensor);
    for (const [index, name] of paths.entries()) {
      const leaf = leaves[index] as Tensor;
      if (tensors.has(name)) throw new HeddleError("tree", `both a parameter and a state are called '${name}'`);
      tensors.set(name, { shape: leaf.shape, dtype: leaf.dtype, data: await wholeData(leaf) });
    }
  }
  return tensors;
}

/** Writes weights; a kill at any instant leaves the file before or the new one. @throws HeddleError `disk` or `file`. */
export async function writeWeights(
  path: string,
  tensors: HostTensors,
  options: SaveSafetensorsOptions = {},
): Promise<void> {
  try {
    await saveSafetensors(path, tensors, options);
  } catch (error) {
    if (error instanceof HeddleError) throw error;
    const reason = error instanceof Error ? error.message : String(error);
    throw new HeddleError("file", `weights cannot be written to ${path}: ${reason}`, { cause: error });
  }
}
