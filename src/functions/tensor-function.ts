/** @module Functions of tensors made from functions of nodes. */
import type { Node } from "../ir/node.ts";
import { operate, type Tensor } from "../tensor/tensor.ts";

let made = 0;

/**
 * A function of tensors from one of nodes: how an op of one's own is called. Eager and traced alike, it composes with every
 * transform that its ops have rules for.
 *
 * @param name for messages
 * @param build makes the result's node of the operands' nodes; nothing else may decide what it makes
 * @example const roll = tensorFunction("roll", (x) => apply(rollOp, [x], { by: 1 }));
 */
export function tensorFunction(name: string, build: (...inputs: Node[]) => Node): (...inputs: Tensor[]) => Tensor {
  // Two functions of one name are two functions.
  const own = `${name}#${made++}`;
  return (...inputs) => operate(own, build as (...inputs: never[]) => Node, inputs);
}
