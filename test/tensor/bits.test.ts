/** Bits read as another dtype, and elements within bounds, as users call them. */
import { describe, expect, test } from "vitest";
import { bitcast, clamp, grad, jit, jvp, type Tensor, tensor, vmap } from "../../src/functions/index.ts";

const inf = Infinity;
const plain = (x: Tensor): number[] => Array.from(x.dataSync());
const half = (values: number[], dtype: "f16" | "bf16" = "f16"): Tensor => tensor(values, { dtype });

describe("bitcast", () => {
  const x = tensor([1, -0, -inf]);
  const bits = [0x3f800000, -0x80000000, -0x800000];

  test("eager, as a method, compiled, and on a batch", () => {
    const wanted = { dtype: "i32", data: bits };
    const told = (y: Tensor): object => ({ dtype: y.dtype, data: plain(y) });
    expect(told(bitcast(x, "i32"))).toEqual(wanted);
    expect(told(x.bitcast("i32"))).toEqual(wanted);
    expect(told(jit((y: Tensor) => bitcast(y, "i32"))(x))).toEqual(wanted);
    expect(told(vmap((y: Tensor) => bitcast(y, "i32"))(x))).toEqual(wanted);
    expect(plain(half([1, -2]).bitcast("bf16"))).toEqual([2 ** -7, -2]);
  });

  test("has derivatives of 0, whatever its dtypes", () => {
    const through = (y: Tensor): Tensor => y.mul(y.bitcast("i32").bitcast("f32"));
    expect(plain(grad((y: Tensor) => through(y).sum())(tensor([2, 3])))).toEqual([2, 3]);
    expect(plain(jvp(through, [tensor([2, 3])], [tensor([1, 10])]).tangent as Tensor)).toEqual([2, 30]);
    const halves = (y: Tensor): Tensor => y.bitcast("bf16").cast("f32");
    expect(plain(grad((y: Tensor) => halves(y).sum())(half([1, 2])))).toEqual([0, 0]);
    expect(plain(jvp(halves, [half([1])], [half([1])]).tangent as Tensor)).toEqual([0]);
  });

  test.each([
    ["f32", "i64", /^bitcast: i64 has 64 bits, f32 has 32 \(f32\[1\]\)/],
    ["i8", "bf16", /^bitcast: bf16 has 16 bits, i8 has 8/],
    ["bool", "u8", /^bitcast: not defined for bool: .*bool\[1\].*u8.*hint: use cast/s],
    ["u8", "bool", /^bitcast: not defined for bool: .*u8\[1\].*hint: use cast/s],
  ] as const)("not from %s to %s", (from, to, message) => {
    expect(() => tensor([1], { dtype: from }).bitcast(to)).toThrow(message);
  });
});

describe("clamp", () => {
  test("takes numbers and tensors that broadcast, in any dtype of numbers", () => {
    const x = tensor([
      [-3, 0.5],
      [9, Number.NaN],
    ]);
    expect(plain(clamp(x, -1, 1))).toEqual([-1, 0.5, 1, Number.NaN]);
    expect(plain(x.clamp(tensor([-1, 0]), tensor(4)))).toEqual([-1, 0.5, 4, Number.NaN]);
    expect(plain(clamp(tensor([1]), tensor([[0], [2]]), 5))).toEqual([1, 2]);
    expect(plain(clamp(x, Number.NaN, 1))).toEqual(Array(4).fill(Number.NaN));
    for (const dtype of ["i8", "u8", "i32", "u32", "f16", "bf16", "f64"] as const) {
      const y = clamp(tensor([0, 5, 100], { dtype }), 2, 50);
      expect([y.dtype, plain(y)]).toEqual([dtype, [2, 5, 50]]);
    }
    expect(
      Array.from(
        tensor([-5n, 2n ** 62n])
          .clamp(-1n, 2n ** 60n + 1n)
          .dataSync<BigInt64Array>(),
      ),
    ).toEqual([-1n, 2n ** 60n + 1n]);
  });

  test("gives the gradient to what is within, and halves it where x is a bound", () => {
    const x = tensor([-2, -1, 0, 1, 2]);
    expect(plain(grad((y: Tensor) => clamp(y, -1, 1).sum())(x))).toEqual([0, 0.5, 1, 0.5, 0]);
    expect(plain(grad((y: Tensor) => clamp(y, -1, 1).sum())(tensor(Number.NaN)))).toEqual([1]);
    const [low, high] = [grad((b: Tensor) => clamp(x, b, 1).sum()), grad((b: Tensor) => clamp(x, -1, b).sum())];
    expect(plain(low(tensor(-1)))).toEqual([1.5]);
    expect(plain(high(tensor(1)))).toEqual([1.5]);
  });

  test("refuses bounds that are the wrong way round, and none of the dtype", () => {
    expect(() => clamp(tensor([1]), 2, 1)).toThrow(/^clamp: low is 2, above high, 1/);
    expect(() => tensor([1]).clamp(2n, 1)).toThrow(/^clamp: low is 2, above high, 1/);
    expect(plain(clamp(tensor([1]), tensor(2), 1))).toEqual([1]);
    expect(() => clamp(tensor([1], { dtype: "i32" }), 0.5, 1)).toThrow(/^clamp: 0\.5 is not a value of i32/);
    expect(() => clamp(tensor([1, 2]), tensor([1, 2, 3]), 4)).toThrow(/^clamp: shapes do not broadcast/);
    expect(() => clamp(tensor([true]), 0, 1)).toThrow(/bool/);
  });
});
