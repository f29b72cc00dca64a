/** Values at the ends of the range, and where a slope is taken where a factor is infinite or 0. */
import { asinh, atan2, grad, hessian, jvp, linalg, type Tensor, tensor } from "heddle";
import { describe, expect, test } from "vitest";
import { traceGraph } from "../../src/ir/graph.ts";
import { expectClose } from "../support/close.ts";
import * as ops from "../support/nodes.ts";

describe("systems of numbers that have no squares", () => {
  test.each([1e-300, 1e-200, 1e-157, 1e155, 1e300])("of %s", async (s) => {
    const rows = [s, 2 * s, 3 * s, 4 * s];
    const of = (values: readonly number[]): Tensor => tensor([...values], { dtype: "f64" });
    const x = linalg.solve(of(rows).reshape([2, 2]), of([s, s]));
    expectClose(await x.data(), [-1, 1], 1e-12);
    const specs = [
      { name: "a", type: { dtype: "f64" as const, shape: [2, 2] } },
      { name: "b", type: { dtype: "f64" as const, shape: [2] } },
    ];
    const graph = traceGraph("solve", specs, (a, b) => [ops.solve(a as never, b as never)]);
    const [found] = ops.evaluateGraph(graph, [
      { dtype: "f64", shape: [2, 2], data: Float64Array.from(rows) },
      { dtype: "f64", shape: [2], data: Float64Array.of(s, s) },
    ]);
    expectClose(found?.data as Float64Array, [-1, 1], 1e-12);
  });
});

test.each([
  ["rank 1", [1, 0, 0, 0], [1, 0, 0, 0]],
  ["nothing", [0, 0, 0, 0], [0, 0, 0, 0]],
  ["rank 1, slanted", [1, 1, 1, 1], [0.25, 0.25, 0.25, 0.25]],
])("the pseudo-inverse of a matrix of %s, on both executors", async (_what, rows, expected) => {
  const type = { dtype: "f64" as const, shape: [2, 2] };
  const graph = traceGraph("pinv", [{ name: "a", type }], (a) => [ops.pinv(a as never)]);
  const [found] = ops.evaluateGraph(graph, [{ ...type, data: Float64Array.from(rows) }]);
  expectClose(found?.data as Float64Array, expected, 1e-12);
  expectClose(await linalg.pinv(tensor(rows, { dtype: "f64" }).reshape([2, 2])).data(), expected, 1e-12);
});

test("slopes of powers at 0, forwards and again", async () => {
  const constant = (x: Tensor): Tensor => x.pow(0);
  const [zero, one] = [tensor(0), tensor(1)];
  expect(await jvp(constant, [zero], [one]).tangent.data()).toEqual(Float32Array.of(0));
  expect(await grad(grad(constant))(zero).data()).toEqual(Float32Array.of(0));
  const powers = (x: Tensor): Tensor => x.pow(tensor([0, 1, 2, 3])).sum();
  const second = hessian(powers)(tensor([0, 0, 0, 0])) as unknown as Tensor;
  expectClose(await second.data(), [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0], 0);
});

test("the slope of asinh far out", async () => {
  const far = [-1e30, 0, 1e20, 2e9, 9999, 10001];
  const slopes = await grad((a: Tensor) => asinh(a).sum())(tensor(far)).data();
  expectClose(
    Array.from(slopes, (slope, index) => slope * Math.hypot(far[index] as number, 1)),
    far.map(() => 1),
    1e-6,
  );
});

test.each([1e-30, 1e-20, 1e19, 1e30])("the norm of a matrix of %ss, and its slope", async (s) => {
  const x = tensor([[3 * s, 4 * s]]);
  expectClose(await linalg.matrixNorm(x.div(s)).data(), [5], 1e-6);
  expect((((await linalg.matrixNorm(x).data())[0] as number) / s).toFixed(5)).toBe("5.00000");
  expectClose(await grad((a: Tensor) => linalg.matrixNorm(a))(x).data(), [0.6, 0.8], 1e-6);
});

test.each([
  ["zeros", [0, 0], 0],
  ["an infinity", [-Infinity, 1], Infinity],
  ["NaN", [Number.NaN, 1], Number.NaN],
])("the norm of a matrix with %s", async (_what, row, expected) => {
  expect(await linalg.matrixNorm(tensor([row])).data()).toEqual(Float32Array.of(expected));
});

test.each([
  [1e-30, 1e-30, 5e29],
  [1e20, 1e20, 5e-21],
  [0, 3e-38, 1 / 3e-38],
  [2, 1, 0.2],
])("the slope of an angle at (%s, %s)", async (y, x, expected) => {
  const slope = grad((value: Tensor) => atan2(value, tensor(x)))(tensor(y));
  expect(((await slope.data())[0] as number) / expected).toBeCloseTo(1, 5);
});

test("one tensor given to jvp for its arguments is told", () => {
  expect(() => jvp((x: Tensor) => x, tensor(1) as never, tensor(1) as never)).toThrow(
    "jvp: primals and tangents are arrays, with one for each argument of the function",
  );
});
