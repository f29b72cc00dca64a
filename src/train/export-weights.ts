/** @module The weights of a model as arrays in ordinary memory, named as in PyTorch's `state_dict`. */

import type { Tensors } from "../functions/index.ts";
import { hostByName } from "../io/host-tensors.ts";
import type { HostTensors } from "../io/safetensors.ts";
import { wholeData } from "./state.ts";

/**
 * Copies parameters and layer state to ordinary memory, by their paths (`"0.weight"`). Sharded tensors are gathered, so every worker
 * must call this function.
 *
 * @throws HeddleError `tree` if a parameter and a state have the same name
 */
export const exportWeights = (values: { readonly params: Tensors; readonly state: Tensors }): Promise<HostTensors> =>
  hostByName("weights", [values.params, values.state], async (x) => ({
    shape: x.shape,
    dtype: x.dtype,
    data: await wholeData(x),
  }));
