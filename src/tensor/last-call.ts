/** @module The last call of a compiled function: another one like it needs no key, which costs more than a small program. */
import type { Value } from "../compile/value.ts";
import { sameType, type TensorType } from "../ir/shape.ts";
import { sameLayout } from "../plan/index.ts";
import { isLike, type TreeShape } from "../util/tree.ts";
import { isTensor, type Tensor } from "./tensor.ts";

/** What a call was compiled for, and what it gave. */
export class LastCall<Entry> {
  readonly entry: Entry;
  private readonly shape: TreeShape;
  private readonly types: readonly TensorType[];
  private readonly values: readonly Pick<Value, "runtime" | "layout">[];

  constructor(entry: Entry, shape: TreeShape, leaves: readonly Tensor[], values: readonly Value[]) {
    this.entry = entry;
    this.shape = shape;
    this.types = leaves.map(({ shape, dtype }) => ({ shape, dtype }));
    // Without the memory: the call is over.
    this.values = values.map(({ runtime, layout }) => ({ runtime, layout }));
  }

  /** The tensors among the arguments of a call; undefined where it differs in more than contents, or has no tensor. */
  leavesOf(inputs: readonly unknown[]): Tensor[] | undefined {
    const leaves: Tensor[] = [];
    return isLike(this.shape, inputs, isTensor, leaves) && leaves.length > 0 && this.likeBefore(leaves)
      ? leaves
      : undefined;
  }

  private likeBefore(leaves: readonly Tensor[]): boolean {
    for (let index = 0; index < leaves.length; index++) {
      const leaf = leaves[index] as Tensor;
      const before = this.values[index] as Value;
      const { runtime, layout } = leaf.value;
      if (runtime !== before.runtime || !sameType(leaf, this.types[index] as TensorType)) return false;
      if (layout !== before.layout && !sameLayout(layout, before.layout)) return false;
    }
    return true;
  }
}
