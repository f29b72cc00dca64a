/** @module The weights of a model as a file that any reader of safetensors knows: names as PyTorch's `state_dict`. */

import type { Tensors } from "../functions/index.ts";
import { type HostTensors, type SaveSafetensorsOptions, savedBy } from "../io/safetensors.ts";
import { hostByName } from "../io/state-dict.ts";
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

/** Writes weights for a function that users call; a kill at any instant leaves the file before or the new one. @throws HeddleError `disk` or `file`. */
export const writeWeights = (
  what: string,
  path: string,
  tensors: HostTensors,
  options: SaveSafetensorsOptions = {},
): Promise<void> => savedBy(what, path, tensors, options);
