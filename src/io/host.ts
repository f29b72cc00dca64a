/** @module Between tensors and values in ordinary memory, which is what files hold. */
import { dtypes } from "../ir/dtype.ts";
import type { HostTensor } from "../ir/node.ts";
import { isTensor, type Tensor, tensor } from "../tensor/index.ts";
import { HeddleError } from "../util/errors.ts";
import { shown } from "../util/show.ts";

/** A tensor, or its values in ordinary memory: what the writers of files take. */
export type TensorOrHost = Tensor | HostTensor;

/** The values of a tensor in ordinary memory. @throws HeddleError `layout` when this process holds only a part. */
export async function toHost(x: TensorOrHost): Promise<HostTensor> {
  if (isTensor(x)) return { dtype: x.dtype, shape: x.shape, data: await x.data() };
  if (ArrayBuffer.isView(x?.data)) return x;
  throw new HeddleError("argument", `toHost: ${shown(x)} is neither a tensor nor { dtype, shape, data }`);
}

/** A tensor of values that a file held. */
export const toTensor = ({ dtype, shape, data }: HostTensor): Tensor => tensor(data, { dtype, shape });

/** The bytes of values as files hold them, shared with them where memory holds them so. @throws HeddleError `dtype` where memory holds them otherwise. */
export function bytesOfHost({ dtype, data }: HostTensor): Uint8Array {
  if (data.BYTES_PER_ELEMENT !== dtypes[dtype].create(0).BYTES_PER_ELEMENT)
    throw new HeddleError("dtype", `values of ${dtype} are given with ${data.BYTES_PER_ELEMENT} bytes each`);
  return dtypes[dtype].bytesOf(data);
}
