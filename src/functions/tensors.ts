/** @module Named trees of tensors: parameters, optimizer state, state of layers. */
import type { Tensor } from "../tensor/tensor.ts";

/** A named tree of tensors, such as `{ "0": { weight, bias } }`. */
export interface Tensors {
  readonly [name: string]: Tensor | Tensors;
}
