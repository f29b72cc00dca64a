/** Parts of ONNX files that nobody asks for, nodes in any order, functions of the file, and inputs that have a value. */
import { BinaryWriter, WireType } from "@bufbuild/protobuf/wire";
import { io, type Tensor, tensor } from "heddle";
import { describe, expect, test } from "vitest";
import { hostInts } from "../../src/adapters/onnx/helpers.ts";
import type { AttributeProto, FunctionProto, GraphProto, ModelProto } from "../../src/adapters/onnx/messages.ts";
import { floats, ints, model, node, port } from "./onnx-models.ts";

const input = [port("x", 1, 2)];
const x = tensor([-1, 2]);
const valuesOf = async (value: Tensor | undefined) => Array.from((await value?.data()) as ArrayLike<number>, Number);
const run = async (bytes: Uint8Array): Promise<number[]> =>
  valuesOf(io.parseOnnx(bytes, { file: "net" }).run({ x })["y"]);
const alpha = (f: number, name = "alpha"): AttributeProto => ({ name, f, type: 1 });
const relu = node("Relu", ["x"], ["y"]);

/** Bytes of a message that follow others: a field of any number, with a text. */
const field = (number: number, text: string): Uint8Array =>
  new BinaryWriter().tag(number, WireType.LengthDelimited).string(text).finish();
const joined = (...parts: Uint8Array[]): Uint8Array => Uint8Array.from(parts.flatMap((part) => [...part]));

describe("what nobody asks for is neither read nor checked", () => {
  const string = port("s", 8);
  test.each<[string, Partial<GraphProto>]>([
    ["texts", { initializer: [{ name: "u", dims: [2], dataType: 8 }] }],
    ["integers of 16 bits", { initializer: [{ name: "u", dims: [1], dataType: 5, rawData: new Uint8Array(2) }] }],
    ["a type of the future", { initializer: [{ name: "u", dims: [1], dataType: 99 }] }],
    ["a tensor that is too short", { initializer: [{ name: "u", dims: [9], dataType: 1, floatData: [1] }] }],
    ["one of a wrong shape", { initializer: [{ name: "u", dims: [-1], dataType: 1 }] }],
    ["one elsewhere, nowhere", { initializer: [{ name: "u", dims: [1], dataType: 1, dataLocation: 1 }] }],
    ["two of a name", { initializer: [floats("u", [1]), floats("u", [2])] }],
    ["a sparse one without values", { sparseInitializer: [{ dims: [4] }] }],
    ["a node of an unknown op", { node: [relu, node("Mystery", ["x"], ["z"])] }],
    ["a node that takes what nothing makes", { node: [node("Add", ["x", "q"], ["z"]), relu] }],
    ["nodes in a circle", { node: [node("Add", ["x", "b"], ["a"]), node("Neg", ["a"], ["b"]), relu] }],
    ["an input of texts", { input: [...input, string] }],
    ["an input that is no tensor", { input: [...input, { name: "s", type: { mapType: {} } }] }],
    ["an input of no type", { input: [...input, { name: "s" }] }],
    ["the type of an output", { output: [{ name: "y" }] }],
    ["an input of another type", { input: [...input, port("z", 1, 3)] }],
  ])("%s", async (_name, graph) => {
    expect(await run(model({ input, node: [relu], ...graph }))).toEqual([0, 2]);
  });

  test("fields that are not in the table, of the model, its graph and its nodes", async () => {
    const bytes = model({ input, node: [relu] });
    // metadata_props, training_info and what may come; the last graph is the one that counts.
    expect(await run(joined(field(14, "a"), field(20, "b"), bytes, field(1000, "c")))).toEqual([0, 2]);
  });

  test("results that nobody takes, of a node whose others are taken", async () => {
    const vectors = ["scale", "bias", "mean", "var"].map((name) => floats(name, [1]));
    const norm = node(
      "BatchNormalization",
      ["x", "scale", "bias", "mean", "var"],
      ["y", "m", "v"],
      [alpha(0, "epsilon")],
    );
    expect(
      await run(
        model(
          {
            input,
            node: [
              node("Reshape", ["x", "to"], ["r"]),
              { ...norm, input: ["r", ...norm.input.slice(1)], output: ["z", "m", "v"] },
              node("Reshape", ["z", "flat"], ["y"]),
            ],
            initializer: [...vectors, ints("to", [2, 1]), ints("flat", [2])],
          },
          9,
        ),
      ),
    ).toEqual([-1, 2]);
  });

  test("outputs that are not asked for", async () => {
    const labels = { name: "labels", type: { sequenceType: {} } };
    const output = [port("y", 1), labels];
    const bytes = model({ input, node: [relu, node("ZipMap", ["y"], ["labels"])], output });
    expect(() => io.parseOnnx(bytes)).toThrow(/ZipMap, which is not imported/);
    const net = io.parseOnnx(bytes, { outputs: ["y"] });
    expect([net.outputs.map(({ name }) => name), await valuesOf(net.run({ x })["y"])]).toEqual([["y"], [0, 2]]);
    expect(() => io.parseOnnx(bytes, { outputs: ["z"] })).toThrow(/has no output "z"[\s\S]*its outputs are y, labels/);
    const sequence = model({ input, node: [relu, node("Identity", ["y"], ["labels"])], output });
    expect(() => io.parseOnnx(sequence)).toThrow(/"labels" is not a tensor[\s\S]*\{ outputs: \[name\] \}/);
  });
});

describe("nodes in any order", () => {
  const held = floats("held", [10, 20]);
  test("results before what they are made of, also in a branch that uses values around it", async () => {
    const branch: GraphProto = {
      node: [node("Neg", ["inner"], ["out"]), node("Add", ["late", "held"], ["inner"])],
      initializer: [held],
      input: [],
      output: [{ name: "out" }],
    };
    const yes = { name: "yes", dims: [], dataType: 9, int32Data: [1] };
    const graphs = ["then_branch", "else_branch"].map((name) => ({ name, g: branch, type: 5 }));
    const nodes = [node("Neg", ["z"], ["y"]), node("If", ["yes"], ["z"], graphs), node("Relu", ["x"], ["late"])];
    expect(await run(model({ input, node: nodes, initializer: [yes] }))).toEqual([10, 22]);
  });

  test("a chain of 12,000 nodes from the last to the first", () => {
    const count = 12_000;
    const nodes = Array.from({ length: count }, (_unused, index) =>
      node("Neg", [index === count - 1 ? "x" : `v${index + 1}`], [index === 0 ? "y" : `v${index}`]),
    );
    expect(io.parseOnnx(model({ input, node: nodes })).ops).toEqual(["Neg"]);
  });

  test.each<[string, Partial<GraphProto>, RegExp]>([
    [
      "a circle",
      {
        node: [
          node("Add", ["x", "b"], ["a"], [], "first"),
          node("Neg", ["a"], ["b"], [], "second"),
          node("Neg", ["b"], ["y"]),
        ],
      },
      /^net has a cycle, each taking from the next: node "first" \(Add\), node "second" \(Neg\), node "first" \(Add\)/,
    ],
    ["a node that takes its own result", { node: [node("Neg", ["y"], ["y"], [], "n")] }, /cycle.*node "n".*node "n"/],
    ["two nodes of one result", { node: [relu, node("Neg", ["x"], ["y"])] }, /net has two values "y"/],
    [
      "two tensors of a name",
      { node: [node("Add", ["x", "w"], ["y"])], initializer: [held, held].map((one) => ({ ...one, name: "w" })) },
      /net has two values "w"/,
    ],
    ["an output that nothing makes", { node: [] }, /net: an output is "y", which nothing makes/],
  ])("refuses %s", (_name, graph, message) => {
    expect(() => io.parseOnnx(model({ input, ...graph }), { file: "net" })).toThrow(message);
  });
});

const own = (name: string, given: Partial<FunctionProto>): FunctionProto => ({
  name,
  domain: "own",
  input: ["a"],
  output: ["b"],
  node: [],
  opsetImport: [{ version: 18 }],
  attributeProto: [],
  ...given,
});
const call = (op: string, inputs: string[], outputs: string[], attributes: AttributeProto[] = [], overload = "") => ({
  ...node(op, inputs, outputs, attributes),
  domain: "own",
  overload,
});
const refers = (name: string, refAttrName: string): AttributeProto => ({ name, refAttrName, type: 1 });

describe("functions of the file", () => {
  const using = (nodes: GraphProto["node"], functions: FunctionProto[], rest: Partial<ModelProto> = {}) =>
    run(model({ input, node: nodes }, 18, { functions, ...rest }));
  const twice = own("Twice", { node: [node("Add", ["a", "a"], ["b"])] });

  test("one that nobody calls, and one of ops that are not there whose result nobody asks for", async () => {
    const odd = own("Odd", {
      output: ["b", "c"],
      node: [node("Mystery", ["a"], ["c"]), node("Neg", ["t"], ["b"]), node("Relu", ["a"], ["t"])],
    });
    expect(await using([relu], [odd])).toEqual([0, 2]);
    expect(await using([call("Odd", ["x"], ["y"])], [odd])).toEqual([-0, -2]);
    expect(await using([call("Odd", ["x"], ["y", ""])], [odd])).toEqual([-0, -2]);
    await expect(using([call("Odd", ["x"], ["y", "z"]), node("Neg", ["y"], ["w"])], [odd])).resolves.toEqual([-0, -2]);
    await expect(using([call("Odd", ["x"], ["w", "y"])], [odd])).rejects.toThrow(/^net: node "Odd#0\/n" is Mystery/);
  });

  test("calls keep their names apart, also from the graph's and within other calls", async () => {
    const four = own("Four", {
      node: [call("Twice", ["a"], ["t"]), call("Twice", ["t"], ["b"])],
      opsetImport: [{ version: 18 }, { domain: "own", version: 1 }],
    });
    const nodes = [
      call("Four", ["x"], ["t"]),
      call("Four", ["x"], ["b"]),
      node("Add", ["t", "b"], ["Four#0/t"]),
      node("Identity", ["Four#0/t"], ["y"]),
    ];
    expect(await using(nodes, [four, twice])).toEqual([-8, 16]);
  });

  test("attributes: given, by default, left out, and handed on", async () => {
    const leaky = own("Leaky", {
      node: [node("LeakyRelu", ["a"], ["b"], [refers("alpha", "slope")])],
      attributeProto: [alpha(0.5, "slope")],
    });
    const plain = own("Plain", { node: [node("LeakyRelu", ["a"], ["b"], [refers("alpha", "slope")])] });
    const outer = own("Outer", { node: [call("Leaky", ["a"], ["b"], [refers("slope", "by")])] });
    const functions = [leaky, plain, outer];
    expect(await using([call("Leaky", ["x"], ["y"], [alpha(0.25, "slope")])], functions)).toEqual([-0.25, 2]);
    expect(await using([call("Leaky", ["x"], ["y"])], functions)).toEqual([-0.5, 2]);
    expect((await using([call("Plain", ["x"], ["y"])], functions))[0]).toBeCloseTo(-0.01, 6);
    expect(await using([call("Outer", ["x"], ["y"], [alpha(4, "by")])], functions)).toEqual([-4, 2]);
    expect(await using([call("Outer", ["x"], ["y"])], functions)).toEqual([-0.5, 2]);
  });

  test("an opset of its own, inputs left out, a result that is an input, and overloads", async () => {
    const axes: AttributeProto = { name: "axes", ints: [0], type: 7 };
    // The axes are an attribute in opset 11 and an input in 18.
    const old = own("Old", {
      node: [node("Unsqueeze", ["a"], ["t"], [axes]), node("Squeeze", ["t"], ["b"], [axes])],
      opsetImport: [{ version: 11 }],
    });
    const clipped = own("Clipped", { input: ["a", "low", "high"], node: [node("Clip", ["a", "low", "high"], ["b"])] });
    const same = own("Same", { output: ["a"] });
    const negative = own("Twice", {
      overload: "negative",
      node: [node("Sub", ["z", "a"], ["b"]), node("Sub", ["a", "t"], ["z"]), node("Add", ["a", "a"], ["t"])],
    });
    const zero = node("Constant", [], ["zero"], [alpha(0, "value_float")]);
    expect(await using([call("Old", ["x"], ["y"])], [old])).toEqual([-1, 2]);
    expect(await using([zero, call("Clipped", ["x", "zero"], ["y"])], [clipped])).toEqual([0, 2]);
    expect(await using([zero, call("Clipped", ["x", "", "zero"], ["y"])], [clipped])).toEqual([-1, 0]);
    expect(await using([call("Same", ["x"], ["y"])], [same])).toEqual([-1, 2]);
    expect(await using([call("Twice", ["x"], ["y"], [], "negative")], [twice, negative])).toEqual([2, -4]);
  });

  test("a branch within one, which uses values around it and refers to attributes", async () => {
    const branch = (op: string): GraphProto => ({
      node: [node(op, ["t"], ["u"], op === "LeakyRelu" ? [refers("alpha", "slope")] : [])],
      initializer: [],
      input: [],
      output: [{ name: "u" }],
    });
    const either = own("Either", {
      input: ["a", "flag"],
      node: [
        node(
          "If",
          ["flag"],
          ["b"],
          [
            { name: "then_branch", g: branch("LeakyRelu"), type: 5 },
            { name: "else_branch", g: branch("Abs"), type: 5 },
          ],
        ),
        node("Neg", ["a"], ["t"]),
      ],
    });
    const flag = { name: "flag", dims: [], dataType: 9, int32Data: [1] };
    const nodes = [call("Either", ["x", "flag"], ["y"], [alpha(0.25, "slope")])];
    expect(await run(model({ input, node: nodes, initializer: [flag] }, 18, { functions: [either] }))).toEqual([
      1, -0.5,
    ]);
  });

  test("in place of an op that is not there, and with an opset that only functions ask for", async () => {
    const fused = own("FastRelu", { domain: "com.microsoft", node: [node("Relu", ["a"], ["b"])] });
    const nodes = [{ ...node("FastRelu", ["x"], ["y"]), domain: "com.microsoft" }];
    expect(await using(nodes, [fused], { opsetImport: [{ domain: "com.microsoft", version: 1 }] })).toEqual([0, 2]);
  });

  test("those that call themselves, or grow without bounds, are refused", async () => {
    const calls = (name: string, other: string) => own(name, { node: [call(other, ["a"], ["b"])] });
    await expect(using([call("A", ["x"], ["y"])], [calls("A", "B"), calls("B", "A")])).rejects.toThrow(
      "A calls B calls A",
    );
    const grows = Array.from({ length: 30 }, (_unused, level) =>
      own(`F${level}`, { node: [call(`F${level + 1}`, ["a"], ["t"]), call(`F${level + 1}`, ["t"], ["b"])] }),
    );
    expect(() => io.parseOnnx(model({ input, node: [call("F0", ["x"], ["y"])] }, 18, { functions: grows }))).toThrow(
      /has 1073741824 nodes once its functions are inlined/,
    );
  });
});

describe("tensors by their entries", () => {
  const sparse = (indices: Parameters<typeof ints>[1], dims: number[], values = floats("w", [3, 5])) => ({
    values,
    indices: { ...ints("", indices), dims: indices.length === 2 ? [2] : [2, 2] },
    dims,
  });
  test.each([
    ["by places", sparse([1, 2], [2, 2])],
    ["by an index for each dim", sparse([0, 1, 1, 0], [2, 2])],
  ])("%s, as an initializer and as a constant", async (_name, sparseTensor) => {
    const product = node("MatMul", ["x", "w"], ["y"]);
    const constant = node("Constant", [], ["w"], [{ name: "sparse_value", sparseTensor, type: 11 }]);
    expect(await run(model({ input, node: [product], sparseInitializer: [sparseTensor] }))).toEqual([10, -3]);
    expect(await run(model({ input, node: [constant, product] }))).toEqual([10, -3]);
  });

  test("an entry outside is refused", () => {
    const bytes = model({
      input,
      node: [node("MatMul", ["x", "w"], ["y"])],
      sparseInitializer: [sparse([1, 4], [2, 2])],
    });
    expect(() => io.parseOnnx(bytes)).toThrow(/has an entry at 4 of 4/);
  });
});

describe.each([3, 8])("an initializer that is an input, in a file of version %i", (irVersion) => {
  const ports = [...input, port("w", 1, 2), port("s", 7, "rank"), port("u", 1, 2)];
  const bytes = model(
    {
      input: ports,
      node: [node("Mul", ["x", "w"], ["z"]), node("Expand", ["z", "s"], ["y"])],
      initializer: [floats("w", [10, 100]), ints("s", [2]), floats("u", [0, 0])],
    },
    18,
    { irVersion },
  );
  test("is taken where nothing is given, and replaced where something is", async () => {
    const net = io.parseOnnx(bytes);
    expect([net.inputs, net.optionalInputs].map((list) => list.map(({ name }) => name))).toEqual([
      ["x"],
      ["w", "s", "u"],
    ]);
    expect(Object.keys(net.params)).toEqual(["w"]);
    expect(await valuesOf(net.run({ x })["y"])).toEqual([-10, 200]);
    expect(await valuesOf(net.run({ x, w: tensor([1, 2]), u: x })["y"])).toEqual([-1, 4]);
    const s = hostInts([3, 2]);
    expect(net.apply({ x, s: { ...s, shape: [2] } })["y"]?.shape).toEqual([3, 2]);
    expect(() => net.run({ x, w: tensor([1, 2, 3]) })).toThrow(/input "w" is f32\[2\], got f32\[3\]/);
    expect(() => net.run({ x, q: x })).toThrow(/no input "q"[\s\S]*its inputs are x, w, s, u/);
  });
});

test("ReduceL2 of integers is one", async () => {
  const graph = { node: [node("ReduceL2", ["x", "axes"], ["y"])], initializer: [ints("axes", [1])] };
  const bytes = model({ ...graph, input: [port("x", 6, 1, 2)], output: [port("y", 6)] });
  const { y } = io.parseOnnx(bytes).run({ x: tensor([[3, 4]], { dtype: "i32" }) }) as { y: Tensor };
  expect([y.dtype, await y.array()]).toEqual(["i32", [[5]]]);
});
