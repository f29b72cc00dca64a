import { grad, type Tensor, tensor, xlogy } from "heddle";
import { describe, expect, test } from "vitest";
import { mulNoNan } from "../../src/functions/zero-terms.ts";

const inf = Infinity;
const nan = Number.NaN;

// x, y, the value, and the gradients by both: PyTorch's, but for the gradients by y at x = 0 (0 / 0 there) and by x at y = inf.
const logs: readonly (readonly [number, number, number, number, number])[] = [
  [0, 0, 0, 0, 0],
  [0, 2, 0, Math.log(2), 0],
  [0, -1, 0, 0, 0],
  [0, inf, 0, 0, 0],
  [0, nan, nan, nan, nan],
  [2, 0, -inf, -inf, inf],
  [2, 4, 2 * Math.log(4), Math.log(4), 0.5],
  [2, -1, nan, nan, -2],
];

// As above, of the product.
const products: readonly (readonly [number, number, number, number, number])[] = [
  [0, -inf, 0, 0, 0],
  [0, inf, 0, 0, 0],
  [0, 3, 0, 3, 0],
  [0, nan, nan, nan, 0],
  [2, -inf, -inf, -inf, 2],
  [2, 3, 6, 3, 2],
];

describe.each([
  ["xlogy", xlogy, logs],
  ["mulNoNan", mulNoNan, products],
] as const)("%s", (_name, fn, rows) => {
  test.each(["f32", "f64", "f16"] as const)("in %s", async (dtype) => {
    const column = (index: number): number[] => rows.map((row) => row[index] as number);
    const [x, y] = [0, 1].map((index) => tensor(column(index), { dtype })) as [Tensor, Tensor];
    const byX = grad((one: Tensor) => fn(one, y).sum())(x);
    const byY = grad((one: Tensor) => fn(x, one).sum())(y);
    for (const [found, index] of [
      [fn(x, y), 2],
      [byX, 3],
      [byY, 4],
    ] as const) {
      expect(found.dtype).toBe(dtype);
      const want = await tensor(column(index), { dtype }).array();
      expect((await found.array()) as number[]).toEqual(
        (want as number[]).map((value) =>
          Number.isFinite(value) ? expect.closeTo(value, dtype === "f16" ? 2 : 5) : value,
        ),
      );
    }
  });
});

test("xlogy broadcasts, takes numbers, and wants floats", async () => {
  expect(await xlogy(tensor([[0], [1]]), tensor([1, 0])).array()).toEqual([
    [0, 0],
    [0, -inf],
  ]);
  expect(await xlogy(0, tensor([0, 1])).array()).toEqual([0, 0]);
  expect(xlogy(tensor([1], { dtype: "f16" }), tensor([1])).dtype).toBe("f32");
  expect(() => xlogy(tensor([1], { dtype: "i32" }), tensor([1], { dtype: "i32" }))).toThrow(
    /xlogy: .* is not a value of i32/,
  );
});
