/** Tensors of numbers by a rule. */
import { jit, linspace, type Tensor, tensor } from "heddle";
import { describe, expect, test } from "vitest";

describe("linspace", () => {
  // NumPy's numbers.
  test.each([
    [0, 1, 5, {}, [0, 0.25, 0.5, 0.75, 1]],
    [0.1, 0.7, 4, { dtype: "f64" }, [0.1, 0.3, 0.5, 0.7]],
    [-3, 4, 7, { endpoint: false }, [-3, -2, -1, 0, 1, 2, 3]],
    [2, -1, 4, {}, [2, 1, 0, -1]],
    [0.5, 0.7, 1, {}, [0.5]],
    [1, 2, 0, {}, []],
    [1e20, 3, 2, { dtype: "f64" }, [1e20, 3]],
    [-5, 5, 4, { dtype: "i32" }, [-5, -2, 1, 5]],
    [0, 255, 4, { dtype: "u8" }, [0, 85, 170, 255]],
    [0, 1, 3, { dtype: "bf16" }, [0, 0.5, 1]],
    // NumPy's width overflows here.
    [-1.5e308, 1.5e308, 3, { dtype: "f64" }, [-1.5e308, 0, 1.5e308]],
    [-1.5e308, 1.5e308, 2, { dtype: "f64" }, [-1.5e308, 1.5e308]],
  ] as const)("from %d to %d, %d numbers %o", async (start, stop, count, options, expected) => {
    const made = linspace(start, stop, count, options);
    expect([made.dtype, Array.from(await made.data(), Number)]).toEqual([
      "dtype" in options ? options.dtype : "f32",
      expected,
    ]);
  });

  test("refuses what are no bounds or counts", () => {
    expect(() => linspace(Number.NaN, 1, 2)).toThrow(/linspace: start must be finite, got NaN/);
    expect(() => linspace(0, Infinity, 2)).toThrow(/stop must be finite/);
    expect(() => linspace(0, 1, -1)).toThrow(/count must be at least 0/);
    expect(() => linspace(0, 256, 3, { dtype: "u8" })).toThrow(/256 is not a value of u8/);
  });
});

test("numbers of compiled functions keep their last bit", async () => {
  // The first was read as 0.2.
  const hard = [0.19999999999999998, 0.30000000000000004, 2.225073858507201e-308, 8.41e21, 1.7976931348623157e308];
  const made = jit((x: Tensor) => hard.map((number) => x.add(number)))(tensor([0], { dtype: "f64" }));
  expect(await Promise.all(made.map(async (x) => (await x.data())[0]))).toEqual(hard);
});
