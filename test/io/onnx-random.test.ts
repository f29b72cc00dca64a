/** ONNX's random ops and Unique, of which the package onnx has few tests or none: distributions, keys, seeds, sizes. */
import { io, jit, random, type Tensor, tensor, zeros } from "heddle";
import { describe, expect, test } from "vitest";
import { type AttributeProto, type NodeProto, type TensorProto, writeModel } from "../../src/adapters/onnx/messages.ts";

const codes = { f32: 1, i32: 6, i64: 7, f64: 11 } as const;
const int = (name: string, i: number): AttributeProto => ({ name, i, type: 2 });
const float = (name: string, f: number): AttributeProto => ({ name, f, type: 1 });
const list = (name: string, ints: number[]): AttributeProto => ({ name, ints, type: 7 });
const node = (opType: string, input: string[], output: string[], attribute: AttributeProto[] = []): NodeProto => ({
  opType,
  input,
  output,
  attribute,
  name: `the ${opType}`,
});
const port = (name: string, elemType: number) => ({ name, type: { tensorType: { elemType } } });

/** A model of these nodes, with one input "x" unless there are weights. */
function model(nodes: NodeProto[], outputs: Record<string, number>, initializer: TensorProto[] = []): io.OnnxModel {
  const input = initializer.length > 0 ? [] : [port("x", codes.f32)];
  const output = Object.entries(outputs).map(([name, code]) => port(name, code));
  const graph = { node: nodes, name: "g", initializer, input, output };
  return io.parseOnnx(writeModel({ irVersion: 8, opsetImport: [{ version: 18 }], graph }));
}

const [rows, columns] = [100, 200];
const shape = list("shape", [rows, columns]);
const key = random.key(3);

/** Mean and standard deviation. */
function moments(values: readonly number[]): [number, number] {
  const mean = values.reduce((a, b) => a + b, 0) / values.length;
  return [mean, Math.sqrt(values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / values.length)];
}

const x = zeros([rows, columns]).add(0.25);

describe("20000 draws have the moments that they should", () => {
  test.each<[string, string[], AttributeProto[], keyof typeof codes, number, number]>([
    ["RandomUniform", [], [shape, float("low", -2), float("high", 4)], "f32", 1, 6 / Math.sqrt(12)],
    ["RandomUniformLike", ["x"], [int("dtype", codes.f64)], "f64", 0.5, 1 / Math.sqrt(12)],
    ["RandomNormal", [], [shape, float("mean", 3), float("scale", 0.5)], "f32", 3, 0.5],
    ["RandomNormalLike", ["x"], [], "f32", 0, 1],
    ["Bernoulli", ["x"], [int("dtype", codes.i32)], "i32", 0.25, Math.sqrt(3) / 4],
    [
      "Multinomial",
      ["x"],
      [int("sample_size", 200), int("dtype", codes.i64)],
      "i64",
      99.5,
      Math.sqrt((200 ** 2 - 1) / 12),
    ],
  ])("%s", async (op, inputs, attributes, dtype, mean, deviation) => {
    const y = model([node(op, inputs, ["y"], attributes)], { y: codes[dtype] });
    const drawn = y.run({ x }, { key })["y"] as Tensor;
    expect([drawn.shape, drawn.dtype]).toEqual([[rows, columns], dtype]);
    const [m, d] = moments(Array.from((await drawn.data()) as ArrayLike<number>, Number));
    // Five standard errors of 20000.
    expect(Math.abs(m - mean)).toBeLessThan((5 * deviation) / Math.sqrt(20_000));
    expect(Math.abs(d - deviation)).toBeLessThan(0.05 * deviation);
  });
});

test("classes are drawn by the exponentials of what is given", async () => {
  const logits = tensor([[Math.log(2), Math.log(6), -Infinity]]);
  const y = model([node("Multinomial", ["x"], ["y"], [int("sample_size", 20_000)])], { y: codes.i32 });
  const drawn = Array.from(await (y.run({ x: logits }, { key })["y"] as Tensor).data());
  const share = drawn.filter((value) => value === 1).length / drawn.length;
  expect(Math.abs(share - 0.75)).toBeLessThan(5 * Math.sqrt(0.1875 / 20_000));
  expect(Math.max(...drawn)).toBe(1);
});

describe("keys and seeds", () => {
  const two = (attributes: AttributeProto[]) =>
    model([node("RandomNormalLike", ["x"], ["a"], attributes), node("RandomNormalLike", ["x"], ["b"])], { a: 1, b: 1 });
  const drawn = (net: io.OnnxModel, seed: number) => {
    const { a, b } = net.run({ x }, { key: random.key(seed) }) as Record<string, Tensor>;
    return [String((a as Tensor).dataSync()), String((b as Tensor).dataSync())];
  };

  test("nodes draw apart, keys give other numbers, equal keys equal ones", () => {
    const net = two([]);
    const [[a, b], [c]] = [drawn(net, 1), drawn(net, 2)];
    expect(new Set([a, b, c]).size).toBe(3);
    expect(drawn(net, 1)).toEqual([a, b]);
  });

  test("a seed stays what it is, whatever the key", () => {
    const net = two([float("seed", 2.5)]);
    const [[a, b], [c, d]] = [drawn(net, 1), drawn(net, 2)];
    expect([a === c, b === d]).toEqual([true, false]);
  });

  test("a key may be an argument of a compiled function", () => {
    const net = two([]);
    const run = jit((given: Tensor) => net.apply({ x }, net.params, { key: given })["a"] as Tensor);
    expect(String(run(random.key(1)).dataSync())).toBe(drawn(net, 1)[0]);
  });

  test("without either it is an error that names the node", () => {
    expect(() => two([]).run({ x })).toThrow(/"the RandomNormalLike".*draws random numbers[\s\S]*key: random.key/);
  });
});

describe("Unique", () => {
  const floats = (dims: number[], floatData: number[]): TensorProto => ({ name: "w", dims, dataType: 1, floatData });
  const outputs = { y: codes.f32, first: codes.i64, inverse: codes.i64, count: codes.i64 };
  const names = Object.keys(outputs);
  const run = (weight: TensorProto, attributes: AttributeProto[]) => {
    const { y, ...rest } = model([node("Unique", ["w"], names, attributes)], outputs, [weight]).run({});
    return [(y as Tensor).arraySync(), ...Object.values(rest).map((one) => Array.from(one.dataSync(), Number))];
  };

  test.each<[string, TensorProto, AttributeProto[], unknown[]]>([
    [
      "sorted, NaN last and once",
      floats([6], [2, Number.NaN, 1, 2, Number.NaN, -1]),
      [],
      [
        [-1, 1, 2, Number.NaN],
        [5, 2, 0, 1],
        [2, 3, 1, 2, 3, 0],
        [1, 1, 2, 2],
      ],
    ],
    [
      "in order",
      floats([2, 2], [5, 3, 5, 4]),
      [int("sorted", 0)],
      [
        [5, 3, 4],
        [0, 1, 3],
        [0, 1, 0, 2],
        [2, 1, 1],
      ],
    ],
    [
      "columns",
      floats([2, 3], [1, 0, 1, 2, 9, 2]),
      [int("axis", -1)],
      [
        [
          [0, 1],
          [9, 2],
        ],
        [1, 0],
        [1, 0, 1],
        [1, 2],
      ],
    ],
  ])("%s", (_name, weight, attributes, wanted) => {
    expect(run(weight, attributes)).toEqual(wanted);
  });

  test("of values that are computed it is an error that names node and input", () => {
    const net = model([node("Unique", ["x"], ["y"])], { y: codes.f32 });
    expect(() => net.run({ x: tensor([1, 1]) })).toThrow(/"the Unique".*input 0 \("x"\) is computed.*shapes depend/);
    const known = { dtype: "f32", shape: [2], data: Float32Array.of(1, 1) } as const;
    expect((net.run({ x: known })["y"] as Tensor).arraySync()).toEqual([1]);
  });
});
