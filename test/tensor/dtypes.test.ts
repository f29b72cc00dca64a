import { inspect } from "node:util";
import { describe, expect, it } from "vitest";
import { arange, full, grad, matmul, random, type Tensor, tensor, where, zeros } from "../../src/index.ts";
import { type DType, dtypeNames } from "../../src/ir/dtype.ts";

const big = 2n ** 60n + 1n;

describe("tensors of every dtype, as users see them", () => {
  const made: readonly (readonly [string, () => Tensor, DType, unknown])[] = [
    ["bigints", () => tensor([1n, -2n]), "i64", [1n, -2n]],
    ["a bigint", () => tensor(big), "i64", big],
    ["bigints as u64", () => tensor([2n ** 64n - 1n], { dtype: "u64" }), "u64", [2n ** 64n - 1n]],
    ["numbers as i64", () => tensor([[1, 2]], { dtype: "i64" }), "i64", [[1n, 2n]]],
    ["bigints as f32", () => tensor([3n], { dtype: "f32" }), "f32", [3]],
    ["a BigInt64Array", () => tensor(BigInt64Array.of(big)), "i64", [big]],
    ["a BigUint64Array", () => tensor(BigUint64Array.of(big)), "u64", [big]],
    ["an Int8Array", () => tensor(Int8Array.of(-128, 127)), "i8", [-128, 127]],
    ["an Int16Array", () => tensor(Int16Array.of(-(2 ** 15), 7)), "i32", [-(2 ** 15), 7]],
    ["a Uint16Array", () => tensor(Uint16Array.of(50_256)), "i32", [50_256]],
    ["clamped bytes", () => tensor(Uint8ClampedArray.of(1, 300)), "u8", [1, 255]],
    ["rows that are typed arrays", () => tensor([Float64Array.of(0.1), Float64Array.of(0.2)]), "f64", [[0.1], [0.2]]],
    ["rows of 16 bits", () => tensor([[Int16Array.of(1, 2)]]), "i32", [[[1, 2]]]],
    ["rows of several kinds", () => tensor([Int16Array.of(1), [2.5]], { dtype: "f32" }), "f32", [[1], [2.5]]],
    ["numbers as i8", () => tensor([-1, 2], { dtype: "i8" }), "i8", [-1, 2]],
    ["floats as bf16", () => tensor([0.1, 3.4e38, -1e-45], { dtype: "bf16" }), "bf16", [0.10009765625, Infinity, -0]],
    ["floats as f16", () => tensor(Float32Array.of(0.1, 65520), { dtype: "f16" }), "f16", [0.0999755859375, Infinity]],
    ["zeros", () => zeros([2], { dtype: "i64" }), "i64", [0n, 0n]],
    ["a constant beyond 2^53", () => full([2], -big, { dtype: "i64" }), "i64", [-big, -big]],
    ["counts", () => arange(3, { dtype: "bf16" }), "bf16", [0, 1, 2]],
    ["counts in i64", () => arange(3, { dtype: "i64" }), "i64", [0n, 1n, 2n]],
    ["64-bit sums", () => tensor([big, big]).sum(), "i64", 2n * big],
    ["sums that wrap", () => tensor([2n ** 63n - 1n, 1n]).sum(), "i64", -(2n ** 63n)],
    ["a number beside i64", () => tensor([big]).add(1), "i64", [big + 1n]],
    ["a bigint beside i64", () => tensor([1n]).mul(big), "i64", [big]],
    ["a bigint beside f32", () => tensor([0.5]).mul(2n), "f32", [1]],
    ["comparisons of large integers", () => tensor([big]).eq(big - 1n), "bool", [false]],
    ["bf16 and a number", () => tensor([1], { dtype: "bf16" }).mul(0.1), "bf16", [0.10009765625]],
    ["bf16 and f16", () => tensor([1], { dtype: "bf16" }).add(tensor([2], { dtype: "f16" })), "f32", [3]],
    ["i32 and f16", () => tensor([1], { dtype: "i32" }).add(tensor([2], { dtype: "f16" })), "f16", [3]],
    ["the mean of many", () => full([70_000], 1, { dtype: "f16" }).mean(), "f16", 1],
    ["the largest of i64", () => tensor([big, big + 1n]).max(), "i64", big + 1n],
    ["the place of the largest", () => tensor([big, big + 1n, big]).argMax(), "i32", 1],
  ];

  it.each(made)("%s", async (_name, make, dtype, values) => {
    const x = make();
    expect(x.dtype).toBe(dtype);
    expect(await x.array()).toEqual(values);
  });

  it("come as the arrays that the documentation names", async () => {
    const arrays = dtypeNames.map((dtype) => [dtype, zeros([1], { dtype }).dataSync().constructor.name]);
    expect(Object.fromEntries(arrays)).toEqual({
      f32: "Float32Array",
      f64: "Float64Array",
      f16: "Float32Array",
      bf16: "Float32Array",
      i32: "Int32Array",
      u32: "Uint32Array",
      u8: "Uint8Array",
      i8: "Int8Array",
      i64: "BigInt64Array",
      u64: "BigUint64Array",
      bool: "Uint8Array",
    });
    expect(await tensor(7n).item<bigint>()).toBe(7n);
  });

  it("show in console.log", () => {
    expect(inspect(tensor([big]))).toBe(`tensor<i64[1]> [${big}]`);
    expect(inspect(tensor([0.1, 2], { dtype: "bf16" }))).toBe("tensor<bf16[2]> [0.1001, 2]");
  });

  it("random numbers stay below the end of their range", async () => {
    for (const dtype of ["f16", "bf16"] as const) {
      const values = random.uniform(random.key(1), [20_000], { dtype }).dataSync();
      expect(values.every((value) => value >= 0 && value < 1)).toBe(true);
      expect(random.normal(random.key(2), [8], { dtype }).dtype).toBe(dtype);
    }
  });
});

describe("gradients in bf16", () => {
  it("are those in f32 within the rounding of bf16", async () => {
    const [x, w] = [random.normal(random.key(3), [16, 32]), random.normal(random.key(4), [32, 8])];
    const loss = (weights: Tensor, inputs: Tensor): Tensor =>
      matmul(inputs, weights).softmax().mul(matmul(inputs, weights)).sum();
    const wanted = await grad(loss)(w, x).data();
    // Parameters in f32, arithmetic in bf16: the gradient comes back in f32.
    const mixed = grad((weights: Tensor, inputs: Tensor) =>
      loss(weights.cast("bf16"), inputs.cast("bf16")).cast("f32"),
    );
    const gradient = mixed(w, x);
    expect(gradient.dtype).toBe("f32");
    const scale = Math.max(...wanted.map(Math.abs));
    (await gradient.data()).forEach((value, index) => {
      expect(Math.abs(value - (wanted[index] as number)) / scale).toBeLessThan(0.03);
    });
  });
});

it("a selection of two numbers is f32, whatever the condition is", async () => {
  const chosen = where(tensor([1, 0], { dtype: "bool" }), 0.5, 2);
  expect([chosen.dtype, ...(await chosen.data())]).toEqual(["f32", 0.5, 2]);
});
