import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { grad, io, jit, nn, random, type Tensor, tensor } from "heddle";
import { afterAll, describe, expect, test } from "vitest";
import { type GraphProto, readModel, type TensorProto, writeModel } from "../../src/adapters/onnx/messages.ts";
import { isFloat } from "../../src/ir/dtype.ts";
import type { TensorType } from "../../src/ir/shape.ts";
import { exported } from "../onnx/exported.ts";
import { ints, model, node, port } from "./onnx-models.ts";

const folder = mkdtempSync(join(tmpdir(), "heddle-onnx-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** A value for an input: floats around 0, whole numbers that are indices. */
const example = ({ dtype, shape }: TensorType, seed: number): Tensor =>
  isFloat(dtype)
    ? random.normal(random.key(seed), shape, { dtype: dtype as "f32" })
    : random.uniform(random.key(seed), shape).mul(4).cast(dtype);

describe("what is exported comes back", () => {
  test.each(exported)("$name", async ({ fn, inputs, names }) => {
    const given = Object.fromEntries(Object.entries(inputs).map(([name, type], index) => [name, example(type, index)]));
    const wanted = (jit((x: typeof given) => fn(x)) as typeof fn)(given) as Tensor;
    const model = io.parseOnnx(await io.exportOnnx(fn, inputs, { names }));
    const got = model.run(given)["output"] as Tensor;
    expect([got.shape, got.dtype]).toEqual([wanted.shape, wanted.dtype]);
    const [left, right] = [await got.data(), await wanted.data()];
    left.forEach((value, index) => {
      expect(Number(value)).toBeCloseTo(Number(right[index]), 4);
    });
  });
});

describe("models", () => {
  test("sizes that are computed from shapes are folded, for every size", async () => {
    // y = reshape(x, [shape(x)[0] * 2, -1]), as exporters write it.
    const net = io.parseOnnx(
      model({
        node: [
          node("Shape", ["x"], ["s"]),
          node("Gather", ["s", "zero"], ["rows"]),
          node("Mul", ["rows", "two"], ["twice"]),
          node("Concat", ["twice", "minus"], ["sizes"], [{ name: "axis", i: 0, type: 2 }]),
          node("Reshape", ["x", "sizes"], ["y"]),
        ],
        initializer: [ints("zero", [0]), ints("two", [2]), ints("minus", [-1])],
      }),
    );
    for (const rows of [2, 3]) {
      const x = random.normal(random.key(0), [rows, 4]);
      expect(net.run({ x })["y"]?.shape).toEqual([2 * rows, 2]);
    }
    expect(net.inputs).toEqual([{ name: "x", dtype: "f32", shape: ["n", 4] }]);
  });

  test("weights are parameters: a gradient by them, and a layer", async () => {
    const weight: TensorProto = { name: "w", dims: [4, 2], dataType: 1, floatData: [1, 2, 3, 4, 5, 6, 7, 8] };
    const bytes = model({ node: [node("MatMul", ["x", "w"], ["y"])], initializer: [weight] });
    const net = io.parseOnnx(bytes);
    const x = tensor([[1, 2, 3, 4]]);
    expect(Array.from(await (net.run({ x })["y"] as Tensor).data())).toEqual([50, 60]);
    const slope = grad((params: { w: Tensor }) => (net.apply({ x }, params)["y"] as Tensor).sum())({
      w: net.params["w"] as Tensor,
    });
    expect(Array.from(await slope.w.data())).toEqual([1, 1, 2, 2, 3, 3, 4, 4]);
    const chained = nn.sequential(net.layer(), nn.relu());
    const made = chained.init(random.key(0), { shape: [1, 4], dtype: "f32" });
    expect(made.output.shape).toEqual([1, 2]);
    expect(Object.keys((made.params as { 0: object })[0])).toEqual(["w"]);
    expect(Array.from(await chained.apply(made, x).y.data())).toEqual([50, 60]);
  });

  test("a branch on values runs one side", async () => {
    const side = (opType: string): GraphProto => ({
      node: [node(opType, ["x"], ["z"])],
      initializer: [],
      input: [],
      output: [{ name: "z" }],
    });
    const bytes = model({
      input: [port("x", 1, 2), port("c", 9)],
      node: [
        node(
          "If",
          ["c"],
          ["y"],
          [
            { name: "then_branch", g: side("Exp"), type: 5 },
            { name: "else_branch", g: side("Neg"), type: 5 },
          ],
        ),
      ],
    });
    const net = io.parseOnnx(bytes);
    const x = tensor([0, 0]);
    const run = async (c: boolean) =>
      Array.from(await (net.run({ x, c: tensor(c as never, { dtype: "bool" }) })["y"] as Tensor).data());
    expect([await run(true), await run(false)]).toEqual([
      [1, 1],
      [-0, -0],
    ]);
  });

  test("loops: of a known count with what they stack, and until a computed condition ends them", async () => {
    const bool = port("more", 9);
    const body: GraphProto = {
      node: [
        node("Add", ["held", "held"], ["twice"]),
        node("Less", ["twice", "limit"], ["next"]),
        node("Identity", ["twice"], ["out"]),
      ],
      initializer: [],
      input: [port("i", 7), bool, port("held", 1, 1)],
      output: [{ name: "next" }, { name: "twice" }],
    };
    const limit: TensorProto = { name: "limit", dims: [1], dataType: 1, floatData: [100] };
    const loop = (graph: GraphProto, count: string, outputs: string[]) =>
      io.parseOnnx(
        model({
          input: [port("x", 1, 1)],
          node: [node("Loop", [count, "", "x"], outputs, [{ name: "body", g: graph, type: 5 }])],
          initializer: [limit, { name: "three", dims: [], dataType: 7, int64Data: [3n] }],
          output: outputs.map((name) => ({ ...port(name, 1) })),
        }),
      );
    const x = tensor([3]);
    const until = loop({ ...body, output: [{ name: "next" }, { name: "twice" }] }, "", ["y"]);
    expect(await (until.run({ x })["y"] as Tensor).item()).toBe(192);
    const known: GraphProto = { ...body, node: body.node.slice(0, 1).concat(node("Identity", ["more"], ["same"])) };
    const stacked = loop({ ...known, output: [{ name: "same" }, { name: "twice" }, { name: "twice" }] }, "three", [
      "y",
      "ys",
    ]);
    const { y, ys } = stacked.run({ x });
    expect([await y?.item(), ys?.shape, Array.from((await ys?.data()) ?? [])]).toEqual([24, [3, 1], [6, 12, 24]]);
  });

  const fine = { node: [node("Relu", ["x"], ["y"])] };
  const numbers = (values: { readonly [name: string]: number }): TensorProto[] =>
    Object.entries(values).map(([name, value]) => ({ ...ints(name, [value]), dims: [] }));
  const added = { node: [node("Add", ["x", "w"], ["y"])] };
  test.each([
    [
      "an op that is not there",
      model({ node: [node("Mystery", ["x"], ["y"], [], "block/7")] }),
      /net\.onnx: node "block\/7" is Mystery, which is not imported/,
    ],
    [
      "an op of another domain",
      model({ node: [{ ...node("Relu", ["x"], ["y"]), domain: "com.acme" }] }),
      /is com\.acme\.Relu, which is not imported/,
    ],
    [
      "an op that was another in that opset",
      model({ node: [node("Gelu", ["x"], ["y"])] }, 18),
      /Gelu of opset 18, of which versions 20 to/,
    ],
    [
      "an op in a branch",
      model({
        node: [
          node(
            "If",
            ["x"],
            ["y"],
            [
              {
                name: "then_branch",
                g: { node: [node("Mystery", [], ["z"])], initializer: [], input: [], output: [{ name: "z" }] },
              },
            ],
          ),
        ],
      }),
      /is Mystery/,
    ],
    [
      "an op whose older version has other inputs",
      model({ node: [node("Scan", ["", "x"], ["y"])] }, 8),
      /Scan of opset 8, of which versions 9 to/,
    ],
    [
      "more numbers than there can be",
      model({ node: [node("Range", ["a", "b", "c"], ["y"])], initializer: numbers({ a: 0, b: 1e12, c: 1 }) }),
      /node "n" \(Range\): from 0 to 1000000000000 by 1 there are 1000000000000 numbers/,
    ],
    [
      "sizes beyond reason",
      model({ node: [node("HannWindow", ["a"], ["y"])], initializer: numbers({ a: 1e12 }) }),
      /node "n" \(HannWindow\): asks for sizes beyond reason/,
    ],
    [
      "attributes that do not go together",
      model({ node: [node("Conv", ["x", "x"], ["y"], [{ name: "strides", ints: [1], type: 7 }])] }),
      /net\.onnx: node "n" \(Conv\): /,
    ],
    ["an old opset", model(fine, 3), /uses opset 3; opsets 7 to/],
    ["a value that nothing makes", model({ node: [node("Relu", ["q"], ["y"])] }), /takes "q", which nothing makes/],
    [
      "text instead of a model",
      new TextEncoder().encode("this is no model, whatever it says"),
      /is not a valid ONNX file/,
    ],
    [
      "an initializer that is too short",
      model({ ...added, initializer: [{ name: "w", dims: [3], dataType: 1, rawData: new Uint8Array(4) }] }),
      /has 4 bytes, but float\[3\] takes 12/,
    ],
    [
      "an initializer of texts",
      model({ ...added, initializer: [{ name: "w", dims: [1], dataType: 8 }] }),
      /is string, which Heddle has no dtype for/,
    ],
    ["a size below 0", model({ ...added, initializer: [{ name: "w", dims: [-1], dataType: 1 }] }), /has shape \[-1\]/],
    [
      "a size beyond reason",
      model({
        ...added,
        initializer: [{ name: "w", dims: [2 ** 40, 2 ** 40], dataType: 1, rawData: new Uint8Array(4) }],
      }),
      /too large/,
    ],
    [
      "tensors elsewhere",
      model({ ...added, initializer: [{ name: "w", dims: [1], dataType: 1, dataLocation: 1 }] }),
      /keeps "w" in another file/,
    ],
  ] as readonly [string, Uint8Array, RegExp][])("refuses %s", (_name, bytes, message) => {
    expect(() => io.parseOnnx(bytes, { file: "net.onnx" }).apply({ x: tensor([[1, 2, 3, 4]]) })).toThrow(message);
  });

  test("inputs are checked, and a shape that depends on values is told with its node", () => {
    const net = io.parseOnnx(model(fine));
    expect(() => net.apply({})).toThrow(/input "x" is missing/);
    expect(() => net.apply({ x: tensor([[1, 2]]) })).toThrow(/input "x" is f32\[n,4\], got f32\[1,2\]/);
    expect(() => net.apply({ x: tensor([[1, 2, 3, 4]]), z: tensor(1) })).toThrow(/has no input "z"/);
    const dynamic = io.parseOnnx(
      model({ input: [port("x", 1, 2), port("s", 6, 1)], node: [node("Reshape", ["x", "s"], ["y"], [], "r")] }),
    );
    const x = tensor([1, 2]);
    expect(() => dynamic.apply({ x, s: tensor([2], { dtype: "i32" }) })).toThrow(
      /node "r" \(Reshape\): input 1 \("s"\) is computed when/,
    );
    expect(dynamic.run({ x, s: { dtype: "i32", shape: [1], data: Int32Array.of(2) } })["y"]?.shape).toEqual([2]);
  });

  test("a file cut anywhere, or with a byte changed, is an error of ours or a model", async () => {
    const bytes = await io.exportOnnx(
      (exported[1] as (typeof exported)[0]).fn,
      (exported[1] as (typeof exported)[0]).inputs,
    );
    expect(writeModel(readModel(bytes, "net"))).toEqual(bytes);
    const attempt = (changed: Uint8Array): unknown => {
      try {
        return io.parseOnnx(changed);
      } catch (error) {
        return (error as Error).name;
      }
    };
    for (let place = 0; place < bytes.length; place += 7) {
      for (const changed of [
        bytes.slice(0, place),
        bytes.map((byte, index) => (index === place ? byte ^ 0x55 : byte)),
      ]) {
        const made = attempt(changed);
        expect(made instanceof io.OnnxModel || made === "HeddleError").toBe(true);
      }
    }
  });

  test("a recurrent layer is one Scan for each layer and direction, without what only a gradient reads", async () => {
    const [layer, type] = [
      nn.gru({ hidden: 2, layers: 2, bidirectional: true }),
      { shape: [3, 4, 2], dtype: "f32" } as const,
    ];
    const variables = layer.init(random.key(0), type);
    const bytes = await io.exportOnnx(({ x }) => layer.apply(variables, x).y, { x: type });
    const scans = readModel(bytes, "net").graph?.node.filter(({ opType }) => opType === "Scan") ?? [];
    // The last state and the outputs; where carries were stacked for a gradient there would be one more.
    expect(scans.map(({ output }) => output.length)).toEqual([2, 2, 2, 2]);
  });

  test("a file is written whole, and what ONNX cannot say is refused by name", async () => {
    const path = join(folder, "written.onnx");
    await io.saveOnnx(path, ({ x }) => ({ y: x.relu() }), { x: { shape: [2], dtype: "f32" } });
    expect(io.parseOnnx(new Uint8Array(readFileSync(path))).outputs).toEqual([{ name: "y", dtype: "f32", shape: [2] }]);
    const key = random.key(0);
    await expect(
      io.exportOnnx(({ x }) => x.add(random.uniform(key, [2])), { x: { shape: [2], dtype: "f32" } }),
    ).rejects.toThrow(/randomBits .* has no spelling in ONNX[\s\S]*without \{ train: true \}/);
  });
});
