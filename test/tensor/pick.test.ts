/** One slice along a dim, indexing by `at`, and comparisons of whole tensors. */
import { expect, test } from "vitest";
import * as functions from "../../src/functions/index.ts";
import { allClose, at, grad, type IndexLike, pick, Tensor, tensor, vmap } from "../../src/functions/index.ts";

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

test.each([
  [[2], /^at: index 2 is not in \[-2, 1\], dim 0 of f32\[2,3\]/],
  [[":", -4], /^at: index -4 is not in \[-3, 2\], dim 1/],
  [[0, 0, 0], /^at: 3 indices are given for the 2 dims of \[2,3\]/],
  [["...", "..."], /^at: "\.\.\." can stand once/],
  [["1"], /^at: dim 0 cannot take "1"/],
  [["::0"], /^at: dim 0 cannot take "::0"/],
  [[0.5], /^at: dim 0 cannot take 0.5/],
  [[tensor([0], { dtype: "i32" }), tensor([0], { dtype: "i32" })], /^at: takes one tensor of indices\n[\s\S]*gatherNd/],
  [[null], /^at: dim 0 cannot take null/],
  [[tensor([0, 1])], /^at: indices are i32, got Tensor\(f32\[2\]\)/],
  [[tensor([true, false])], /^at: indices are i32.*\n.*booleanMask/s],
])("at refuses case %#", (indices, message) => {
  expect(() => at(x, ...(indices as IndexLike[]))).toThrow(message);
});

test("an index of a tensor that is outside is told as it was given", async () => {
  await expect(async () => x.at(":", tensor([0, -4], { dtype: "i32" })).data()).rejects.toThrow(
    "at: index -4 at position 1 is outside [-3, 3)",
  );
});

test("whole tensors are close or not", async () => {
  expect(await allClose(x, x.add(1e-7))).toBe(true);
  expect(await allClose(x, x.add(1e-2))).toBe(false);
  expect(await allClose(x, 1, { atol: 5 })).toBe(true);
  await expect(allClose(x, tensor([1, 2]))).rejects.toThrow(/^allClose/);
});

test("methods are the functions of their names", () => {
  const told = (call: () => unknown): unknown => {
    try {
      const made = call();
      return made instanceof Tensor ? made.arraySync() : JSON.stringify(made, (_key, part) => part?.shape ?? part);
    } catch (error) {
      return String(error);
    }
  };
  const methods = Object.getOwnPropertyNames(Tensor.prototype).filter((name) => name in functions);
  expect(methods.length).toBeGreaterThan(110);
  const call = (owner: object, name: string, given: readonly unknown[]): unknown =>
    told(() => (owner as unknown as Record<string, (...args: unknown[]) => unknown>)[name]?.(...given));
  for (const name of methods)
    for (const rest of [[], [x], [1], [[1, 0]]])
      expect(call(x, name, rest), name).toEqual(call(functions, name, [x, ...rest]));
});
