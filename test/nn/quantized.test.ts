import { dequantize, grad, jit, matmul, nn, quantize, random, type Tensor, tensor } from "heddle";
import { describe, expect, test } from "vitest";

const key = random.key(5);
const largest = async (x: Tensor): Promise<number> => (await x.abs().max().item()) as number;

describe("quantize", () => {
  const x = random.normal(key, [7, 9]);

  test.each([
    ["i8", undefined],
    ["u8", undefined],
    ["i8", 0],
    ["u8", -1],
  ] as const)("%s, dim %s: the error is at most half of the scale", async (dtype, dim) => {
    const made = quantize(x, { dtype, ...(dim === undefined ? {} : { dim }) });
    expect([made.values.dtype, made.scale.dtype, made.zeroPoint.dtype]).toEqual([dtype, "f32", "i32"]);
    expect(made.scale.shape).toEqual(dim === undefined ? [] : dim === 0 ? [7, 1] : [1, 9]);
    const error = dequantize(made).sub(x).abs().div(made.scale);
    expect(await largest(error)).toBeLessThan(0.5001);
    expect(await largest(made.values.cast("i32"))).toBeGreaterThan(126);
  });

  test("as ONNX's DynamicQuantizeLinear: its example", async () => {
    // The scale is 5 / 255, and -1.5 / scale is half of an integer after rounding.
    const made = quantize(tensor([0, 2, -3, -2.5, 1.34, 0.5]), { dtype: "u8" });
    expect(Array.from(await made.values.data())).toEqual([153, 255, 0, 26, 221, 179]);
    expect(await made.zeroPoint.item()).toBe(153);
    expect(await made.scale.item()).toBeCloseTo(0.0196078438, 9);
  });

  test("zeros, and numbers of one sign, keep 0 exactly", async () => {
    for (const dtype of ["i8", "u8"] as const)
      for (const values of [
        [0, 0],
        [0, 3],
        [-5, 0],
      ]) {
        const back = dequantize(quantize(tensor(values), { dtype }));
        expect(await largest(back.sub(tensor(values)))).toBeLessThan(1e-6);
      }
  });

  test.each([
    [() => quantize(tensor([1], { dtype: "i32" })), "quantize: takes floats, got i32"],
    [() => quantize(tensor([1]), { dtype: "i32" as "i8" }), "quantize: quantises to i8 and u8, not to i32"],
    [() => quantize(tensor([1]), { dim: 1 }), "quantize"],
  ])("%s is refused", (make, message) => {
    expect(make).toThrow(message);
  });
});

describe("products with a dtype", () => {
  const left = tensor([[200, 100]], { dtype: "u8" });
  const right = tensor([[-2], [3]], { dtype: "i8" });

  test("two dtypes of bytes in i32, also in a batch, of vectors and in two sizes at once", async () => {
    const wide = { dtype: "i32" } as const;
    expect(await matmul(left, right, wide).array()).toEqual([[-100]]);
    expect(
      await left
        .reshape([2])
        .matmul(right.reshape([2]), wide)
        .array(),
    ).toBe(-100);
    const batch = left.broadcastTo([3, 1, 2]);
    expect(await batch.matmul(right.broadcastTo([3, 2, 1]), wide).array()).toEqual([[[-100]], [[-100]], [[-100]]]);
    expect(await jit((a: Tensor, b: Tensor) => a.matmul(b, wide))(batch, right).array()).toEqual([
      [[-100]],
      [[-100]],
      [[-100]],
    ]);
  });

  test("other dtypes are cast", async () => {
    expect(matmul(left, right, { dtype: "f64" }).dtype).toBe("f64");
    expect(await matmul(left, right, { dtype: "f64" }).array()).toEqual([[-100]]);
    expect(() => matmul(left, right)).toThrow("needs two numbers of one dtype");
    expect(() => matmul(left, right, { dtype: "bool" })).toThrow("cannot compute in bool");
  });

  test("gradients of bf16 in f32", async () => {
    const [x, y] = [random.normal(key, [5, 8]).cast("bf16"), random.normal(key, [8, 6]).cast("bf16")];
    const loss = ({ a, b }: { a: Tensor; b: Tensor }): Tensor => a.matmul(b, { dtype: "f32" }).pow(2).sum();
    const made = Object.values(grad(loss)({ a: x, b: y }));
    const wanted = Object.values(grad(loss)({ a: x.cast("f32"), b: y.cast("f32") }));
    for (const [index, one] of made.entries()) {
      expect(one.dtype).toBe("bf16");
      const error = one.cast("f32").sub(wanted[index] as Tensor);
      expect(await largest(error)).toBeLessThan(2 ** -7 * (await largest(wanted[index] as Tensor)));
    }
  });
});

describe("quantizeDynamic", () => {
  const network = nn.sequential(nn.linear(32), nn.relu(), nn.linear(16, { bias: false }), nn.tanh(), nn.linear(3));
  const x = random.normal(key, [20, 8]);
  const variables = network.init(key, { shape: [20, 8], dtype: "f32" });

  test.each([
    [{}, 0.02],
    [{ perChannel: false }, 0.03],
    [{ layers: "0" }, 0.02],
  ])("%j: the answers are close", async (options, bound) => {
    const made = nn.quantizeDynamic(network, variables, options);
    const own = made.variables.params as { [name: string]: { [name: string]: Tensor } };
    expect(own["0"]?.["weight"]?.dtype).toBe("i8");
    expect(own["4"]?.["weight"]?.dtype).toBe("layers" in options ? "f32" : "i8");
    const answer = jit((input: Tensor) => made.layer.apply(made.variables, input).y);
    const error = await largest(answer(x).sub(network.apply(variables, x).y));
    expect(error).toBeLessThan(bound);
    expect(error).toBeGreaterThan(0);
  });

  test("a linear layer alone: the products of the integers, scaled", async () => {
    const layer = nn.linear(5);
    const own = layer.init(key, { shape: [20, 8], dtype: "f32" });
    const made = nn.quantizeDynamic(layer, own);
    const input = dequantize(quantize(x, { dtype: "u8" }));
    const weight = dequantize(quantize(own.params.weight, { dim: 0 }));
    const wanted = input.matmul(weight.transpose()).add(own.params.bias as Tensor);
    expect(await largest(made.layer.apply(made.variables, x).y.sub(wanted))).toBeLessThan(1e-5);
  });

  test("no rows", async () => {
    const made = nn.quantizeDynamic(network, variables);
    const { y } = made.layer.apply(made.variables, x.slice([0, 0], [0, 8]));
    expect(y).toMatchObject({ shape: [0, 3], dtype: "f32" });
    expect(await y.array()).toEqual([]);
  });

  test("what has no linear layer is refused", () => {
    expect(() => nn.quantizeDynamic(nn.relu(), { params: {}, state: {} })).toThrow("quantizeDynamic");
    expect(() => nn.quantizeDynamic(network, variables, { layers: "9" })).toThrow("layers");
    for (const wrong of [undefined, {}, [variables.params]]) {
      expect(() => nn.quantizeDynamic(network, wrong as never)).toThrow("takes variables as init gives them");
    }
  });
});
