/** Systems and determinants where rounding decides: both executors have the same pivots, and no product on the way overflows. */
import { diag, grad, linalg, type Tensor, tensor } from "heddle";
import { describe, expect, test } from "vitest";
import { loadNative } from "../../src/executors/native/binding.ts";
import { localRuntime } from "../../src/executors/runtime.ts";
import { distribute } from "../../src/functions/index.ts";
import { type DType, dtypes } from "../../src/ir/dtype.ts";
import { sizeOf } from "../../src/ir/shape.ts";
import { expectClose } from "../support/close.ts";

/** What both executors make of matrices, or the message of their error. */
async function both(fn: (...x: Tensor[]) => Tensor, dtype: DType, ...given: (readonly (readonly number[])[])[]) {
  const found: unknown[] = [];
  for (const executor of ["reference", "native"] as const) {
    const runtime = localRuntime({ executor });
    try {
      const inputs = given.map((rows) => {
        const shape = [rows.length, rows[0]?.length ?? 0];
        const data = dtypes[dtype].create(sizeOf(shape));
        data.set(rows.flat());
        return distribute(runtime, data, { shape, dtype }, []);
      });
      found.push([...(await fn(...inputs).data())]);
    } catch (error) {
      found.push((error as Error).message.split("\n")[0]);
    } finally {
      runtime.close();
    }
  }
  return found as [unknown, unknown];
}

const square = (n: number, entry: (i: number, j: number) => number): number[][] =>
  Array.from({ length: n }, (_row, i) => Array.from({ length: n }, (_one, j) => entry(i, j)));
const hilbert = (n: number): number[][] => square(n, (i, j) => 1 / (i + j + 1));
const counted = (n: number): number[][] => square(n, (i, j) => i * n + j + 1);
const column = (n: number): number[][] => Array.from({ length: n }, (_one, i) => [Math.sin(i + 1)]);

/** The matrices on which elimination is judged: near singular, of growing pivots, of rows of unlike sizes, far from 1, of several blocks. */
const judged: readonly (readonly [name: string, rows: number[][], growth: number])[] = [
  ["Hilbert's", hilbert(8), 1],
  ["Wilkinson's", square(20, (i, j) => (i === j || j === 19 ? 1 : i > j ? -1 : 0)), 2 ** 19],
  ["graded", square(9, (i, j) => 10 ** -(i + j) * (1 + Math.sin(7 * i + j))), 1],
  ["large", square(5, (i, j) => 1e150 * Math.cos(i * 5 + j * j)), 1],
  ["small", square(5, (i, j) => 1e-150 * Math.cos(i * 5 + j * j)), 1],
  ["of several blocks", square(75, (i, j) => Math.sin(i * 31 + j * j)), 1],
];
const most = (values: readonly number[]): number => Math.max(...values.map(Math.abs));

describe.skipIf("error" in loadNative()).each(judged)("systems with a matrix that is %s", (_what, rows, growth) => {
  test("are solved as well as rounding allows, to the same bits by both executors", async () => {
    const right = column(rows.length);
    const [reference, native] = (await both(linalg.solve, "f64", rows, right)) as [number[], number[]];
    expect(native).toEqual(reference);
    const wrong = rows.map((row, i) =>
      row.reduce((sum, x, j) => sum - x * (native[j] as number), right[i]?.[0] as number),
    );
    const allowed = 1e-15 * growth * most(rows.flat()) * most(native) * rows.length;
    expect(most(wrong)).toBeLessThanOrEqual(allowed);
  });
});

describe.skipIf("error" in loadNative())("the same of the reference and the native executor", () => {
  test.each<readonly [string, number[][]]>([
    ["rank 2 but for rounding", counted(3)],
    ["rank 2 but for rounding, larger", counted(7)],
    ["Hilbert's", hilbert(9)],
    ["rank 1", [[1, 2], [2, 4]]], // biome-ignore format: a matrix
    ["rank 1 of thirds", [[1 / 3, 2 / 3], [0.1, 0.2]]], // biome-ignore format: a matrix
    ["a column of -0", [[-0, 1], [1e-30, 1]]], // biome-ignore format: a matrix
  ])("%s", async (_what, rows) => {
    for (const dtype of ["f32", "f64"] as const) {
      const [reference, native] = await both(linalg.solve, dtype, rows, column(rows.length));
      // The factors are alike to the bit; the product with f64 between them adds up in another order.
      if (dtype === "f32" || typeof reference === "string") expect(native).toEqual(reference);
      else expectClose(native as number[], reference as number[], 1e-10);
      const [one, other] = await both((x) => linalg.determinant(x), dtype, rows);
      expectClose(other as number[], one as number[], dtype === "f32" ? 0 : 1e-14, 0);
    }
  });
});

test("a system of f32 is solved in f64 and rounded once", async () => {
  const rows = hilbert(5);
  const right = rows.map((row) => [row.reduce((sum, one) => sum + Math.fround(one), 0)]);
  // What the matrix of f32 takes to these sums, which f32 rounds: less than half a digit more than the sums lose.
  const [reference, native] = await both(linalg.solve, "f32", rows, right);
  expect(native).toEqual(reference);
  const exact = await both(linalg.solve, "f64", rows.map((row) => row.map(Math.fround)), right.map((row) => row.map(Math.fround))); // biome-ignore format: one line
  expectClose(native as number[], exact[1] as number[], 1e-7);
});

test.each<readonly [string, DType, readonly number[], number]>([
  ["sizes that overflow on the way", "f32", [1e20, 1e20, 1e-20, 1e-20], 1],
  ["sizes that vanish on the way", "f32", [1e-30, 1e-30, 1e30, 1e30], 1],
  ["many", "f32", Array.from({ length: 40 }, (_one, i) => (i % 2 === 0 ? 3 : 1 / 3)), 1],
  ["whole numbers", "f32", [3, 5, 7, 11, 13, 17, 19], 4849845],
  ["an infinite determinant", "f32", [1e30, 1e30], Number.POSITIVE_INFINITY],
  ["no determinant that is left", "f32", [1e-30, -1e-30], -0],
  ["zeros beside large numbers", "f64", [1e300, 1e300, 0, 1e300, 1e300, 1e300], 0],
  ["f64 that overflow on the way", "f64", [1e200, -1e300, 1e-200, 1e-300], -1],
  ["the least number of f64", "f64", [5e-324, 1], 5e-324],
  ["f64 of 1100 factors", "f64", Array.from({ length: 1100 }, (_one, i) => (i < 550 ? 1e10 : 1e-10)), 1],
])("the determinant of %s", async (_what, dtype, diagonal, expected) => {
  const matrix = diag(tensor([...diagonal], { dtype }));
  const found = await linalg.determinant(matrix).item();
  if (expected === 0 || !Number.isFinite(expected)) expect(found + 0).toBe(expected + 0);
  else expectClose([found], [expected], dtype === "f32" ? 6e-8 * 40 : 1e-12);
});

test("the slope of a determinant whose factors overflow", async () => {
  const x = tensor([
    [1e30, 0],
    [0, 1e-30],
  ]);
  expectClose(await grad((a: Tensor) => linalg.determinant(a))(x).data(), [1e-30, 0, 0, 1e30], 1e-6);
});

test("second derivatives of a norm at zeros, and of the determinant of a singular matrix, are finite", async () => {
  const zeros = tensor([0, 0, 0]);
  for (const p of [1.5, 2, 3]) {
    const slope = (x: Tensor) => grad((y: Tensor) => linalg.norm(y, { p }))(x).sum();
    expect([...(await grad(slope)(zeros).data())]).toEqual([0, 0, 0]);
  }
  const singular = tensor([[1, 2], [2, 4]], { dtype: "f64" }); // biome-ignore format: a matrix
  const corner = (x: Tensor) => grad((y: Tensor) => linalg.determinant(y))(x).mul(tensor([[1, 0], [0, 0]], { dtype: "f64" })).sum(); // biome-ignore format: one line
  expectClose(await grad(corner)(singular).data(), [0, 0, 0, 1], 1e-14, 1e-14);
});

test.each<readonly [DType, number]>([
  ["f32", 1e30],
  ["f32", 1e-30],
  ["f64", 1e200],
  ["f64", 1e-200],
  ["f16", 1e3],
  ["bf16", 1e-30],
])("norms of %s near %d neither overflow nor vanish", async (dtype, size) => {
  const x = tensor([3 * size, 4 * size, 0], { dtype });
  for (const [p, expected] of [[1, 7], [2, 5], [3, 91 ** (1 / 3)], [Infinity, 4]] as const) // biome-ignore format: a table
    expectClose([(await linalg.norm(x, { p }).item()) / size], [expected], dtype === "bf16" ? 8e-3 : 1e-3);
  const both = grad((a: Tensor) => linalg.matrixNorm(a.reshape([1, 3])).sum())(x);
  expectClose(await both.data(), [0.6, 0.8, 0], dtype === "bf16" ? 8e-3 : 1e-3, 1e-9);
});
