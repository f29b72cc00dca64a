/** @module Conversion between tensors and values in ordinary memory, the form that files hold. */

import { isTensor, type Tensor, type Tensors, tensor } from "../functions/index.ts";
import { dtypes, isDType } from "../ir/dtype.ts";
import type { HostTensor } from "../ir/node.ts";
import { HeddleError } from "../util/errors.ts";
import { shown } from "../util/show.ts";
import { flattenTree } from "../util/tree.ts";

/** Most dims of a tensor that is read from a file. */
export const largestRank = 32;

/** A tensor, or its values in ordinary memory: what the writers of files take. */
export type TensorOrHost = Tensor | HostTensor;

/** The values of a tensor in ordinary memory. @throws HeddleError `layout` when this process holds only a part. */
export async function toHost(x: TensorOrHost): Promise<HostTensor> {
  if (isTensor(x)) return { dtype: x.dtype, shape: x.shape, data: await x.data() };
  checkHost("toHost", x);
  return x;
}

/** @throws HeddleError `argument` unless `x` is a tensor in ordinary memory. */
export function checkHost(what: string, x: unknown): asserts x is HostTensor {
  const { dtype, shape, data } = (x ?? {}) as Partial<HostTensor>;
  if (ArrayBuffer.isView(data) && Array.isArray(shape) && typeof dtype === "string" && isDType(dtype)) return;
  throw new HeddleError("argument", `${what}: ${shown(x)} is neither a tensor nor { dtype, shape, data }`);
}

/** A tensor from values in ordinary memory. */
export function toTensor(x: HostTensor): Tensor {
  checkHost("toTensor", x);
  return tensor(x.data, { dtype: x.dtype, shape: x.shape });
}

/**
 * The bytes of values as files hold them: a view, where memory has the same form. @throws HeddleError `dtype` where
 * elements have another width in memory.
 */
export function bytesOfHost({ dtype, data }: HostTensor): Uint8Array {
  if (data.BYTES_PER_ELEMENT !== dtypes[dtype].create(0).BYTES_PER_ELEMENT)
    throw new HeddleError("dtype", `values of ${dtype} are given with ${data.BYTES_PER_ELEMENT} bytes each`);
  return dtypes[dtype].bytesOf(data);
}

/** The tensors of trees by their dotted names, as `read` gives them. @throws HeddleError `tree` when two have one name. */
export async function hostByName(
  what: string,
  trees: readonly Tensors[],
  read: (x: Tensor) => Promise<HostTensor>,
): Promise<Map<string, HostTensor>> {
  const host = new Map<string, HostTensor>();
  for (const tree of trees) {
    const { leaves, paths } = flattenTree<Tensor>(tree, isTensor);
    for (const [index, name] of paths.entries()) {
      if (host.has(name)) throw new HeddleError("tree", `${what}: two tensors have the name '${name}'`);
      host.set(name, await read(leaves[index] as Tensor));
    }
  }
  return host;
}
