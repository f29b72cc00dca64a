/** @module The weights of a model as a file that any reader of safetensors knows: names as PyTorch's `state_dict`. */

import { type HostTensors, type SaveSafetensorsOptions, saveSafetensors } from "../io/safetensors.ts";
import { hostByName } from "../io/state-dict.ts";
import type { Tensors } from "../tensor/index.ts";
import { HeddleError } from "../util/errors.ts";
import { wholeData } from "./state.ts";

/**
 * Copies parameters and layer state to the host, by their paths (`"0.weight"`). What is kept in parts is gathered, for which every
 * worker must call it.
 *
 * @throws HeddleError `tree` when a parameter and a state have one name
 */
export const exportWeights = (values: { readonly params: Tensors; readonly state: Tensors }): Promise<HostTensors> =>
  hostByName("weights", [values.params, values.state], async (x) => ({
    shape: x.shape,
    dtype: x.dtype,
    data: await wholeData(x),
  }));

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
