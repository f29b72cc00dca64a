/** @module Functions of tensors made from functions of nodes. */
import type { Node } from "../ir/node.ts";
import { operate, type Tensor } from "../tensor/tensor.ts";

let count = 0;

/**
 * A function of tensors from a function of nodes: the way to call a custom op. It works in eager and traced code, and composes with
 * every transform that its ops have rules for.
 *
 * @param name for messages
 * @param build makes the result's node from the operands' nodes, and depends on nothing else
 * @example const roll = tensorFunction("roll", (x) => apply(rollOp, [x], { by: 1 }));
 */
export function tensorFunction(name: string, build: (...inputs: Node[]) => Node): (...inputs: Tensor[]) => Tensor {
  // Functions with the same name stay distinct.
  const unique = `${name}#${count++}`;
  return (...inputs) => operate(unique, build as (...inputs: never[]) => Node, inputs);
}
