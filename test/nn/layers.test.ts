import { grad, nn, random, type Tensor, tensor } from "heddle";
import { describe, expect, test } from "vitest";
import { isTensor } from "../../src/functions/index.ts";
import type { TensorType } from "../../src/ir/shape.ts";
import { flattenTree } from "../../src/util/tree.ts";
import { expectClose } from "../support/close.ts";

const key = random.key(0);
const f32 = (...shape: number[]): TensorType => ({ shape, dtype: "f32" });

/** `{ "0.weight": [8, 1, 3, 3], … }`. */
function shapesOf(tree: unknown): Record<string, readonly number[]> {
  const { leaves, paths } = flattenTree(tree, isTensor);
  return Object.fromEntries(paths.map((path, index) => [path, (leaves[index] as Tensor).shape]));
}

const convnet = nn.sequential(
  nn.conv2d({ out: 8, kernel: 5, padding: "same" }),
  nn.relu(),
  nn.maxPool2d(2),
  nn.flatten(),
  nn.linear(12, { bias: false }),
  nn.tanh(),
  nn.dropout(0.5),
  nn.linear(10),
);

describe("names and shapes are PyTorch's", () => {
  test("of a convnet", () => {
    const { params, state, output } = convnet.init(key, f32(4, 1, 28, 28));
    expect(shapesOf(params)).toEqual({
      "0.weight": [8, 1, 5, 5],
      "0.bias": [8],
      "4.weight": [12, 8 * 14 * 14],
      "7.weight": [10, 12],
      "7.bias": [10],
    });
    expect(state).toEqual({});
    expect(output).toEqual({ shape: [4, 10], dtype: "f32" });
  });

  test("of nested layers", () => {
    const nested = nn.sequential(nn.linear(4), nn.sequential(nn.relu(), nn.linear(3)));
    expect(Object.keys(shapesOf(nested.init(key, f32(2, 5)).params))).toEqual([
      "0.weight",
      "0.bias",
      "1.1.weight",
      "1.1.bias",
    ]);
  });

  test("of an embedding, whose ids are whole numbers in the table", async () => {
    const layer = nn.embedding(5, 3);
    const ids = tensor([[4, 0]], { dtype: "i32" });
    const { params, output } = layer.init(key, { shape: [1, 2], dtype: "i32" });
    expect(shapesOf(params)).toEqual({ weight: [5, 3] });
    expect(output).toEqual(f32(1, 2, 3));
    const table = await (params["weight"] as Tensor).data();
    const found = await layer.apply({ params, state: {} }, ids).y.data();
    expect([...found]).toEqual([...table.slice(12, 15), ...table.slice(0, 3)]);
    expect(() => nn.sequential(layer).init(key, f32(1, 2))).toThrow(/layer 0 \(embedding\): takes ids/);
    await expect((async () => layer.apply({ params, state: {} }, ids.add(1)).y.data())()).rejects.toThrow(
      /index 5 at position 0 is outside \[0, 5\)/,
    );
  });

  test("strides, padding and dilation", () => {
    const layer = nn.conv2d({ out: 3, kernel: [3, 1], strides: [2, 1], padding: [1, 0], dilation: [2, 1] });
    expect(layer.init(key, f32(1, 2, 9, 7)).output.shape).toEqual([1, 3, 4, 7]);
    expect(nn.maxPool2d(3, { strides: 2, padding: 1 }).init(key, f32(1, 2, 7, 7)).output.shape).toEqual([1, 2, 4, 4]);
  });

  test("apply gives what init announces", () => {
    const variables = convnet.init(key, f32(2, 1, 28, 28));
    const { y } = convnet.apply(variables, random.uniform(key, [2, 1, 28, 28]));
    expect({ shape: y.shape, dtype: y.dtype }).toEqual(variables.output);
  });

  test("f64 inputs make f64 parameters", () => {
    const { params } = nn.linear(3).init(key, { shape: [1, 2], dtype: "f64" });
    expect((params["weight"] as Tensor).dtype).toBe("f64");
  });
});

describe("initial values", () => {
  test("are uniform within 1/sqrt(fan in)", async () => {
    const { params } = nn.linear(500).init(key, f32(1, 400));
    const values = Array.from(await (params["weight"] as Tensor).data());
    const bound = 1 / 20;
    const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
    const square = values.reduce((sum, value) => sum + value * value, 0) / values.length;
    expect(Math.max(...values.slice(0, 10_000).map(Math.abs))).toBeLessThanOrEqual(bound);
    expect(Math.abs(mean)).toBeLessThan(1e-3 * bound * 5);
    // The variance of a uniform distribution.
    expect(square / (bound ** 2 / 3)).toBeCloseTo(1, 2);
  });

  test("depend on the key, the scope and the ordinal", async () => {
    const model = nn.sequential(nn.linear(3), nn.linear(3));
    const values = async (seed: number): Promise<number[][]> => {
      const { params } = model.init(random.key(seed), f32(1, 3));
      return Promise.all(
        flattenTree(params, isTensor).leaves.map(async (leaf) => [...(await leaf.data())].slice(0, 3)),
      );
    };
    const [first, again, other] = [await values(1), await values(1), await values(2)];
    expect(first).toEqual(again);
    const all = [...first, ...other].map((row) => row.join());
    expect(new Set(all).size).toBe(all.length);
  });
});

describe("dropout", () => {
  const x = random.uniform(random.key(3), [64, 128], { min: 1, max: 2 });
  const apply = (rate: number, options: { train?: boolean; key?: Tensor }): Tensor =>
    nn.dropout(rate).apply({ params: {}, state: {} }, x, options).y;

  test("is the identity unless it trains", () => {
    expect(apply(0.5, {})).toBe(x);
    expect(apply(0, { train: true, key })).toBe(x);
  });

  test("keeps with probability 1 - rate and scales what it keeps", async () => {
    const [kept, values] = [await apply(0.25, { train: true, key }).data(), await x.data()];
    const share = kept.filter((value) => value !== 0).length / kept.length;
    expect(Math.abs(share - 0.75)).toBeLessThan(0.02);
    kept.forEach((value, index) => {
      if (value !== 0) expect(value / (values[index] as number)).toBeCloseTo(1 / 0.75, 5);
    });
    expect((await apply(1, { train: true, key }).data()).every((value) => value === 0)).toBe(true);
  });

  test.each(["dropout", "alphaDropout"] as const)("%s by 1 drops what is not finite, too", async (name) => {
    const drop = (given: Tensor): Tensor => nn[name](1).apply({ params: {}, state: {} }, given, { train: true, key }).y;
    const given = tensor([Number.POSITIVE_INFINITY, Number.NaN, 1]);
    expect(await drop(given).array()).toEqual([0, 0, 0]);
    expect(await grad((one: Tensor) => drop(one).sum())(given).array()).toEqual([0, 0, 0]);
  });

  test("drops the same elements in f32 and f64", async () => {
    const single = await apply(0.5, { train: true, key }).data();
    const double = await nn.dropout(0.5).apply({ params: {}, state: {} }, x.cast("f64"), { train: true, key }).y.data();
    expect([...double].map((value) => value === 0)).toEqual([...single].map((value) => value === 0));
  });

  test("needs a key to train", () => {
    expect(() => apply(0.5, { train: true })).toThrow(/random key/);
  });
});

describe("activations", () => {
  const x = tensor([-1, 0, 2]);
  const value = async (layer: nn.Layer): Promise<number[]> => [
    ...(await layer.apply({ params: {}, state: {} }, x).y.data()),
  ];

  test("have the known values", async () => {
    expect(await value(nn.relu())).toEqual([0, 0, 2]);
    const close = (values: number[], expected: number[]): void => expectClose(values, expected, 1e-6);
    close(await value(nn.sigmoid()), [0.26894142, 0.5, 0.88079708]);
    close(await value(nn.tanh()), [-0.76159416, 0, 0.96402758]);
    // torch.nn.functional.gelu
    close(await value(nn.gelu()), [-0.15865525, 0, 1.9544997]);
  });

  test("a function is a layer", async () => {
    const model = nn.sequential(
      nn.activation((x) => x.mul(2)),
      (x) => x.add(1),
    );
    expect(model.init(key, f32(3)).output.shape).toEqual([3]);
    expect(await value(model)).toEqual([-1, 1, 5]);
  });
});

describe("errors name the layer", () => {
  test("when a shape does not fit", () => {
    const model = nn.sequential(nn.flatten(), nn.relu(), nn.conv2d({ out: 1, kernel: 3 }));
    expect(() => model.init(key, f32(2, 1, 8, 8))).toThrow(
      /^layer 2 \(conv2d\): takes images \[batch, channels, height, width\], got f32\[2,64\]/,
    );
  });

  test("with its path and the user's line", () => {
    const model = nn.sequential(nn.sequential(nn.relu(), nn.conv2d({ out: 1, kernel: 9 })), nn.relu());
    expect(() => model.init(key, f32(2, 1, 8, 8))).toThrow(
      /layer 0\.1 \(conv2d\): conv .*a window of 9 does not fit 8[\s\S]*layers\.test\.ts:\d+/,
    );
  });

  test("when parameters are those of another input", () => {
    const model = nn.sequential(nn.linear(4));
    const variables = model.init(key, f32(2, 5));
    expect(() => model.apply(variables, random.uniform(key, [2, 6]))).toThrow(/layer 0 \(linear\): .*6/);
  });

  test("of options", () => {
    expect(() => nn.conv2d({ out: 1, kernel: 3, stride: 2 } as never)).toThrow(
      /unknown option 'stride'\n {2}at .*layers\.test\.ts:\d+:\d+\n {2}hint: it is called 'strides' here/,
    );
    expect(() => nn.linear(0)).toThrow(/out must be at least 1/);
    expect(() => nn.linear(2.5)).toThrow(/whole number/);
    expect(() => nn.dropout(1.5)).toThrow(/rate must be at least 0 and at most 1/);
    expect(() => nn.sequential(undefined as never)).toThrow(/layer 0 is undefined, not a layer/);
    expect(() => nn.sequential([nn.flatten()] as never)).toThrow(/not a layer[\s\S]*sequential\(\.\.\.layers\)/);
  });
});
