/** @module Trees of tensors in tests: elements and stacks, the numbers in them, comparing them. */
import { concat, isTensor, type Tensor, tensor } from "heddle";
import { sizeOf } from "../../src/ir/shape.ts";
import { flattenTree, unflattenTree } from "../../src/util/tree.ts";
import { expectClose } from "./close.ts";
import { randomFrom } from "./tensors.ts";

/** The leaves of trees of one form, put together one by one. */
export function zipTrees<T>(trees: readonly T[], join: (leaves: Tensor[], place: number) => Tensor): T {
  const flat = trees.map((tree) => flattenTree(tree, isTensor));
  const [first] = flat as [(typeof flat)[number]];
  return unflattenTree(
    first.shape,
    first.leaves.map((_leaf, place) =>
      join(
        flat.map(({ leaves }) => leaves[place] as Tensor),
        place,
      ),
    ),
  ) as T;
}

/** Element `index` along dim 0 of every tensor. */
export const elementOf = <T>(tree: T, index: number): T =>
  zipTrees([tree], ([x]) => {
    const { shape } = x as Tensor;
    const start = shape.map((_size, dim) => (dim === 0 ? index : 0));
    const limit = shape.map((size, dim) => (dim === 0 ? index + 1 : size));
    return (x as Tensor).slice(start, limit).reshape(shape.slice(1));
  });

/** Trees of one form, stacked along a new dim 0. */
export const stackTrees = <T>(trees: readonly T[]): T =>
  zipTrees(trees, (leaves) => concat(leaves.map((leaf) => leaf.reshape([1, ...leaf.shape]))));

/** A function of each example of its arguments, one after the other. */
export const looped =
  <Inputs extends unknown[], Result>(fn: (...inputs: Inputs) => Result) =>
  (...inputs: Inputs): Result => {
    const [size] = (flattenTree(inputs, isTensor).leaves[0] as Tensor).shape;
    return stackTrees(Array.from({ length: size as number }, (_unused, index) => fn(...elementOf(inputs, index))));
  };

export const numbersOf = (tree: unknown): number[] =>
  flattenTree(tree, isTensor).leaves.flatMap((leaf) => [...leaf.dataSync()]);

export function expectSame(found: unknown, expected: unknown, tolerance = 1e-10): void {
  expectClose(numbersOf(found), numbersOf(expected), tolerance);
}

/** Random f64 numbers in [-1, 1). */
export function randoms(shape: readonly number[], seed: number): Tensor {
  const random = randomFrom(seed);
  return tensor(
    Float64Array.from({ length: sizeOf(shape) }, () => 2 * random() - 1),
    { shape },
  );
}

/** Random numbers in the form of a tree. */
export const randomsLike = <T>(tree: T, seed: number): T =>
  zipTrees([tree], ([x], place) => randoms((x as Tensor).shape, seed + place));
