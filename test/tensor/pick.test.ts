/** One slice along a dim. */
import { expect, test } from "vitest";
import { grad, pick, type Tensor, tensor, vmap } from "../../src/tensor/index.ts";

const x = tensor([
  [1, 2, 3],
  [4, 5, 6],
]);

test.each([
  ["a column", 0, undefined, [1, 4]],
  ["the last column", -1, undefined, [3, 6]],
  ["a row", 1, 0, [4, 5, 6]],
  ["a row from the end", -2, -2, [1, 2, 3]],
] as const)("%s", (_what, index, dim, wanted) => {
  expect([...pick(x, index, dim).dataSync()]).toEqual(wanted);
});

test("gradients go to the slice, and batches have one each", () => {
  expect(grad((y: Tensor) => pick(y, 1).sum())(x).arraySync()).toEqual([
    [0, 1, 0],
    [0, 1, 0],
  ]);
  expect([...vmap((row: Tensor) => pick(row, 2))(x).dataSync()]).toEqual([3, 6]);
});

test("what is not there", () => {
  expect(() => pick(x, 3)).toThrow(/^pick: index 3 is not in \[-3, 2\], dim 1 of f32\[2,3\]/);
  expect(() => pick(x, -3, 0)).toThrow(/^pick: index -3 is not in \[-2, 1\], dim 0/);
  expect(() => pick(x, 0.5)).toThrow(/^pick: index must be a whole number/);
  expect(() => pick(x, 0, 2)).toThrow(/^pick: dim 2 is not in \[-2, 1\]/);
});
