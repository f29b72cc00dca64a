/** Distinct elements: how many there are is read in eager mode, and must be said where a function is traced. */
import { expect, test } from "vitest";
import { jit, type Tensor, take, tensor, unique, vmap } from "../../src/functions/index.ts";

const x = tensor([
  [3, 1, 3],
  [7, 1, 3],
]);
const numbers = (one: Tensor): number[] => [...one.dataSync()];

test("as many as there are", () => {
  const { values, inverse, counts, number } = unique(x);
  expect([values, counts, number].map(numbers)).toEqual([[1, 3, 7], [2, 3, 1], [3]]);
  expect(inverse.shape).toEqual([2, 3]);
  expect(numbers(take(values, inverse))).toEqual(numbers(x));
});

test("as many as there is room for, in a traced function too", () => {
  const four = (one: Tensor): Tensor[] => {
    const { values, counts, number } = unique(one, { size: 4, fill: -1 });
    return [values, counts, number];
  };
  const wanted = [[1, 3, 7, -1], [2, 3, 1, 0], [3]];
  expect(four(x).map(numbers)).toEqual(wanted);
  expect(jit(four)(x).map(numbers)).toEqual(wanted);
  expect(vmap((row: Tensor) => unique(row, { size: 2 }).values)(x).arraySync()).toEqual([
    [1, 3],
    [1, 3],
  ]);
});

test("what cannot be", () => {
  expect(() => jit((one: Tensor) => unique(one).values)(x)).toThrow(
    /^unique: how many elements.*\n[\s\S]*\{ size: … \}/,
  );
  expect(() => unique(x, { size: -1 })).toThrow(/^unique: size must be/);
  expect(() => unique(tensor([1], { dtype: "u8" }), { fill: -1 })).toThrow(
    /^unique: fill must be a number of u8, the dtype of x, got -1/,
  );
});
