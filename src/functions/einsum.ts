/** @module einsum on tensors. */
import type { Node } from "../ir/node.ts";
import * as ops from "../ops/index.ts";
import { operate, type Tensor } from "../tensor/tensor.ts";
import { HeddleError } from "../util/errors.ts";
import { shown } from "../util/show.ts";

/**
 * NumPy's and PyTorch's `einsum`: the product of the operands, summed over the letters that the result does not have.
 *
 *     einsum("ij,jk->ik", a, b)      // a matrix product
 *     einsum("...ij,...kj->...ik", q, k)
 *     einsum("ii", a)                // the trace
 *
 * A letter that an operand has twice takes the diagonal; without `->` the result has the letters that are there once, in
 * alphabetical order; dims under `...` broadcast. Of more than two operands the pair with the smallest product is
 * multiplied first.
 *
 * @param spec letters of each operand's dims, separated by commas, and of the result after `->`
 * @param operands tensors of one dtype
 * @throws HeddleError `shape` when letters, ranks or sizes do not fit together
 */
export function einsum(spec: string, ...operands: readonly Tensor[]): Tensor {
  if (typeof spec !== "string")
    throw new HeddleError("argument", `einsum: the letters are ${shown(spec)}, not a string`);
  return operate(`einsum ${spec}`, (...nodes: Node[]) => ops.einsum(spec, nodes), operands);
}
