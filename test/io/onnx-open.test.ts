/** Open sizes: of files in all the ways that exporters write them, and of what is exported. */
import { io, jit, nn, random, type Tensor, zeros } from "heddle";
import { describe, expect, test } from "vitest";
import { readModel } from "../../src/adapters/onnx/messages.ts";
import { isFloat } from "../../src/ir/dtype.ts";
import { exportedOpen, typesOf } from "../onnx/exported-open.ts";
import { ints, model, node, port } from "./onnx-models.ts";

describe("what is exported with open sizes takes any", () => {
  test.each(exportedOpen.map((row) => [row.name, row] as const))("%s", async (_name, row) => {
    const net = io.parseOnnx(await io.exportOnnx(row.fn, row.inputs));
    expect(net.inputs.map(({ shape }) => shape)).toEqual(Object.values(row.inputs).map(({ shape }) => shape));
    for (const run of row.runs) {
      const given = Object.fromEntries(
        Object.entries(typesOf(row, run)).map(([name, { dtype, shape }], index) => {
          const drawn = random.normal(random.key(index), shape);
          return [name, isFloat(dtype) ? drawn : drawn.abs().cast(dtype)];
        }),
      );
      const wanted = (jit((x: typeof given) => row.fn(x)) as typeof row.fn)(given) as Tensor;
      const got = net.run(given)["output"] as Tensor;
      expect([got.shape, got.dtype]).toEqual([wanted.shape, wanted.dtype]);
      const values = await wanted.data();
      for (const [index, value] of (await got.data()).entries())
        expect(Number(value)).toBeCloseTo(Number(values[index]), 4);
    }
  });
});

describe("open sizes of an export", () => {
  const open = { x: { shape: ["n", 3], dtype: "f32" } } as const;
  const exported = (fn: (x: Tensor) => Tensor) => io.exportOnnx(({ x }) => ({ y: fn(x) }), open);

  test("have their names on inputs and outputs; what is made of them has none", async () => {
    const net = io.parseOnnx(await io.exportOnnx(({ x }) => ({ y: x.relu(), z: x.reshape([-1]), w: x.sum(0) }), open));
    expect(net.outputs.map(({ shape }) => shape)).toEqual([["n", 3], ["?"], [3]]);
    const { graph } = readModel(await exported((x) => x.exp()), "net");
    // Nothing is computed where no number depends on the size.
    expect(graph?.node.map(({ opType }) => opType)).toEqual(["Exp", "Identity"]);
  });

  test.each<[string, (x: Tensor) => Tensor, RegExp]>([
    [
      "half of it",
      (x) => x.slice([0, 0], [Math.floor((x.shape[0] as number) / 2), 3]),
      /a size \(such as 50\) depends/,
    ],
    ["a square", (x) => x.matmul(x.transpose()).reshape([(x.shape[0] as number) ** 2]), /a size/],
    [
      "as many nodes",
      (x) => Array.from({ length: x.shape[0] as number }).reduce<Tensor>((y) => y.exp(), x),
      /how many nodes/,
    ],
    ["another op", (x) => ((x.shape[0] as number) > 103 ? x.exp() : x.neg()), /which nodes there are/],
    [
      "a window",
      (x) => x.reshape([1, 1, -1]).reshape([1, 1, x.size, 1]).slice([0, 0, 0, 0], [1, 1, 1, 1]).mul(Math.sin(x.size)),
      /a constant depends/,
    ],
  ])("refuses %s", async (_name, fn, message) => {
    await expect(exported(fn)).rejects.toThrow(message);
    await expect(exported(fn)).rejects.toThrow(/an open size \(n\)[\s\S]*give that size as a number/);
  });

  test("weights are fetched once and written once, and a name of nothing is refused", async () => {
    const layer = nn.linear(2);
    const variables = layer.init(random.key(0), { shape: [1, 3], dtype: "f32" });
    const bytes = await io.exportOnnx(({ x }) => ({ y: layer.apply(variables, x).y }), open, {
      names: variables.params,
    });
    expect(readModel(bytes, "net").graph?.initializer.map(({ name }) => name)).toEqual(["weight", "bias"]);
    const empty = { x: { shape: ["", 3], dtype: "f32" } } as const;
    await expect(io.exportOnnx(({ x }) => x, empty)).rejects.toThrow(/a shape is an array of sizes/);
  });
});

/** Nodes that give y the first size of x, twice itself, and the rest, as chains of exporters do. */
const chains = {
  "Shape, Gather, Unsqueeze, Concat": [
    node("Shape", ["x"], ["s"]),
    node("Gather", ["s", "0"], ["n"], [{ name: "axis", i: 0, type: 2 }]),
    node("Mul", ["n", "2"], ["m"]),
    node("Concat", ["m", "-1"], ["to"], [{ name: "axis", i: 0, type: 2 }]),
  ],
  "Shape, Slice, Squeeze, Cast": [
    node("Shape", ["x"], ["s"]),
    node("Slice", ["s", "0", "1"], ["n"]),
    node("Cast", ["n"], ["f"], [{ name: "to", i: 1, type: 2 }]),
    node("Add", ["f", "f"], ["g"]),
    node("Floor", ["g"], ["h"]),
    node("Cast", ["h"], ["i"], [{ name: "to", i: 6, type: 2 }]),
    node("Cast", ["i"], ["m"], [{ name: "to", i: 7, type: 2 }]),
    node("Concat", ["m", "-1"], ["to"], [{ name: "axis", i: 0, type: 2 }]),
  ],
  "ConstantOfShape, Where, Equal": [
    node("Shape", ["x"], ["s"]),
    node("Slice", ["s", "0", "1"], ["n"]),
    node("Add", ["n", "n"], ["m"]),
    node("Concat", ["0", "-1"], ["mask"], [{ name: "axis", i: 0, type: 2 }]),
    node("ConstantOfShape", ["2"], ["ones"], [{ name: "value", t: ints("", [-1]), type: 4 }]),
    node("Equal", ["mask", "-1"], ["open"]),
    node("Where", ["open", "ones", "m"], ["to"]),
  ],
};

describe("open sizes of a file", () => {
  const initializer = [-1, 0, 1, 2].map((value) => ints(String(value), [value]));
  test.each(Object.entries(chains))("computed by %s", (_name, nodes) => {
    const net = io.parseOnnx(model({ node: [...nodes, node("Reshape", ["x", "to"], ["y"])], initializer }));
    for (const rows of [1, 2, 5]) expect(net.run({ x: zeros([rows, 4]) })["y"]?.shape).toEqual([2 * rows, 2]);
  });

  const relu = [node("Relu", ["x"], ["y"])];
  test.each([
    ["a name", port("x", 1, "batch_size", 4), ["batch_size", 4]],
    ["a name made up", port("x", 1, "unk__1", 4), ["unk__1", 4]],
    ["an empty name", port("x", 1, "", 4), ["?", 4]],
    ["0", port("x", 1, 0, 4), ["?", 4]],
    ["-1", port("x", 1, -1, 4), ["?", 4]],
    [
      "a dim that says nothing",
      { name: "x", type: { tensorType: { elemType: 1, shape: { dim: [{}, { dimValue: 4 }] } } } },
      ["?", 4],
    ],
    ["no shape", { name: "x", type: { tensorType: { elemType: 1 } } }, undefined],
  ])("written as %s", (_name, input, shape) => {
    const net = io.parseOnnx(model({ node: relu, input: [input], output: [{ ...input, name: "y" }] }));
    expect([net.inputs[0]?.shape, net.outputs[0]?.shape]).toEqual([shape, shape]);
    for (const rows of [1, 3]) expect(net.run({ x: zeros([rows, 4]) })["y"]?.shape).toEqual([rows, 4]);
    if (shape !== undefined)
      expect(() => net.run({ x: zeros([1, 5]) })).toThrow(/input "x" is f32\[.*,4\], got f32\[1,5\]/);
  });
});
