/** Which tensors of an ONNX file are trained: of files that Heddle wrote exactly the original's, of others by ONNX's meaning. */
import { data, io, losses, nn, optim, random, type Tensor, type Tensors, tensor, train } from "heddle";
import { describe, expect, test } from "vitest";
import {
  type AttributeProto,
  type NodeProto,
  readModel,
  type TensorProto,
  writeModel,
} from "../../src/adapters/onnx/messages.ts";
import { isTensor } from "../../src/functions/index.ts";
import { flattenTree } from "../../src/util/tree.ts";

const leaves = (tree: unknown): Map<string, Tensor> => {
  const flat = flattenTree<Tensor>(tree, isTensor);
  return new Map(flat.paths.map((path, index) => [path, flat.leaves[index] as Tensor]));
};
const values = async (tree: unknown): Promise<Record<string, number[]>> => {
  const made: Record<string, number[]> = {};
  for (const [name, value] of leaves(tree)) made[name] = Array.from((await value.data()) as ArrayLike<number>, Number);
  return made;
};

/** A layer whose slope is a parameter without dims. */
const scaled: nn.Layer = {
  kind: "scaled",
  init: (_key, output) => ({ params: { slope: tensor(2) }, state: {}, output }),
  apply: ({ params }, x) => ({ y: x.mul((params as { slope: Tensor }).slope), state: {} }),
};

const layers: readonly (readonly [name: string, layer: nn.Layer, shape: number[]])[] = [
  ["batch norm", nn.sequential(nn.linear(4), nn.batchNorm(), nn.relu(), nn.linear(2)), [6, 3]],
  ["layer norm", nn.sequential(nn.linear(4), nn.layerNorm(), nn.gelu(), nn.linear(2)), [6, 3]],
  ["gru", nn.gru({ hidden: 3 }), [6, 4, 2]],
  ["lstm", nn.lstm({ hidden: 3 }), [6, 4, 2]],
  ["attention", nn.transformerEncoder({ layers: 1, heads: 2, feedForward: 4 }), [6, 3, 4]],
  ["a number that is a parameter", nn.sequential(nn.linear(2), scaled), [6, 3]],
];

describe("fine-tuning what was exported and read", () => {
  test.each(layers)("%s", async (_name, layer, shape) => {
    const variables = layer.init(random.key(3), { shape, dtype: "f32" });
    // Statistics of a batch are the running ones of a file, so the original is trained by these too.
    const original: nn.Layer = {
      ...layer,
      init: () => variables,
      apply: (given, x) => ({ y: layer.apply(given, x).y, state: given.state }),
    };
    const fn = ({ x }: { x: Tensor }) => ({ y: layer.apply(variables, x).y });
    const bytes = await io.exportOnnx(fn, { x: { shape, dtype: "f32" } }, { names: variables.params });
    const model = io.parseOnnx(bytes);
    const before = await values(variables.params);
    expect(await values(Object.fromEntries(Object.entries(model.params)))).toEqual(before);

    const inputs = random.normal(random.key(1), shape);
    const { y } = fn({ x: inputs });
    const wanted = random.normal(random.key(2), y.shape);
    const rows = data.fromArrays({
      x: { shape, data: (await inputs.data()) as Float32Array },
      y: { shape: [...y.shape], data: (await wanted.data()) as Float32Array },
    });
    // Decay would also move what the loss does not depend on; Adam's first steps would blow up gradients that are but rounding.
    const trained = async (by: nn.Layer): Promise<Record<string, number[]>> => {
      const { params } = await train({
        model: by,
        data: rows.batch(6),
        loss: losses.mse,
        optimizer: optim.sgd({ learningRate: 0.1, weightDecay: 0.1 }),
        epochs: 3,
        report: "silent",
      });
      return values(params);
    };
    const [own, imported] = [await trained(original), await trained(model.layer())];
    expect(Object.keys(imported).sort()).toEqual(Object.keys(own).sort());
    for (const [name, list] of Object.entries(own)) {
      expect(imported[name], name).not.toEqual(before[name]);
      for (const [place, value] of list.entries()) expect(imported[name]?.[place], name).toBeCloseTo(value, 5);
    }
  });

  test("without names all tensors are weights; numbers of the function are none in any case", async () => {
    const [weight, shift] = [tensor([2, 3]), tensor(1)];
    const fn = ({ x }: { x: Tensor }) => ({ y: x.mul(weight).add(shift).maximum(0.5) });
    const bytes = await io.exportOnnx(fn, { x: { shape: [2], dtype: "f32" } });
    expect(Object.keys(io.parseOnnx(bytes).params)).toEqual(["weight0", "weight1"]);
    const named = await io.exportOnnx(fn, { x: { shape: [2], dtype: "f32" } }, { names: { w: weight } });
    expect(Object.keys(io.parseOnnx(named).params)).toEqual(["w"]);
    expect(readModel(named, "net").graph?.initializer.map(({ name }) => name)).toEqual(["w"]);
    const y = io.parseOnnx(named).run({ x: tensor([1, -1]) })["y"] as Tensor;
    expect(Array.from(await y.data())).toEqual([3, 0.5]);
  });
});

const node = (opType: string, input: string[], output: string[], attribute: AttributeProto[] = []): NodeProto => ({
  opType,
  input,
  output,
  attribute,
  name: output[0] as string,
});
const port = (name: string) => ({ name, type: { tensorType: { elemType: 1 } } });
const floats = (name: string, dims: number[], list: number[]): TensorProto => ({
  name,
  dims,
  dataType: 1,
  floatData: list,
});
const parse = (nodes: NodeProto[], initializer: TensorProto[]): io.OnnxModel =>
  io.parseOnnx(
    writeModel({
      irVersion: 8,
      producerName: "pytorch",
      opsetImport: [{ version: 18 }],
      graph: { node: nodes, name: "g", initializer, input: [port("x")], output: [port("y")] },
    }),
  );
const norm = node("BatchNormalization", ["x", "scale", "shift", "mean", "variance"], ["y"]);
const statistics = [
  floats("scale", [2], [1, 2]),
  floats("shift", [2], [0, 0]),
  floats("mean", [2], [3, 4]),
  floats("variance", [2], [1, 1]),
];
const gru = (initial: number[]): [NodeProto[], TensorProto[]] => [
  [
    node("GRU", ["x", "w", "r", "", "", "h"], ["ys", "last"], [{ name: "hidden_size", i: 1, type: 2 }]),
    node("Identity", ["last"], ["y"]),
  ],
  [floats("w", [1, 3, 2], [1, 2, 3, 4, 5, 6]), floats("r", [1, 3, 1], [1, 2, 3]), floats("h", [1, 2, 1], initial)],
];
const row = floats("w", [2], [1, 2]);

describe("weights of files of others", () => {
  test.each<[string, NodeProto[], TensorProto[], string[]]>([
    ["not a batch norm's mean and variance", [norm], statistics, ["scale", "shift"]],
    [
      "nor what they are computed from",
      [node("Abs", ["deviation"], ["variance"]), norm],
      [...statistics.slice(0, 3), floats("deviation", [2], [1, 1])],
      ["scale", "shift"],
    ],
    [
      "not numbers",
      [node("Mul", ["x", "w"], ["z"]), node("Add", ["z", "e"], ["y"])],
      [row, floats("e", [], [1])],
      ["w"],
    ],
    ["but a bias of one", [node("Add", ["x", "b"], ["y"])], [floats("b", [1], [1])], ["b"]],
    ["not masks", [node("Add", ["x", "m"], ["y"])], [floats("m", [2], [0, -Infinity])], []],
    ["nor of the lowest number", [node("Add", ["x", "m"], ["y"])], [floats("m", [2], [0, -3.4028234663852886e38])], []],
    ["not what nothing reads", [node("Add", ["x", "w"], ["y"])], [row, floats("spare", [2], [1, 2])], ["w"]],
    ["not first states of zeros", ...gru([0, 0]), ["w", "r"]],
    ["but learned first states", ...gru([1, 2]), ["w", "r", "h"]],
    [
      "not bounds, and what lies in branches is found",
      [
        node("Clip", ["x", "low"], ["z"]),
        node("ReduceMax", ["z"], ["most"], [{ name: "keepdims", i: 0, type: 2 }]),
        node("Cast", ["most"], ["test"], [{ name: "to", i: 9, type: 2 }]),
        node(
          "If",
          ["test"],
          ["y"],
          ["then_branch", "else_branch"].map((name) => ({
            name,
            type: 5,
            g: { node: [node("Mul", ["z", "w"], [name])], initializer: [], input: [], output: [{ name }] },
          })),
        ),
      ],
      [row, floats("low", [1], [0])],
      ["w"],
    ],
  ])("%s", (_title, nodes, initializer, wanted) => {
    expect(Object.keys(parse(nodes, initializer).params)).toEqual(wanted);
  });

  test("a tensor that is a weight at one place and a statistic at another is trained at the one", async () => {
    const shared = [...statistics.slice(0, 1), floats("same", [2], [0, 1]), floats("variance", [2], [1, 1])];
    const nodes = [
      node("Identity", ["same"], ["mean"]),
      node("BatchNormalization", ["x", "scale", "same", "mean", "variance"], ["y"]),
    ];
    const model = parse(nodes, shared);
    expect(Object.keys(model.params)).toEqual(["scale", "same"]);
    const params: Tensors = { ...model.params, same: tensor([10, 20]) };
    const y = model.apply({ x: tensor([[5, 5]]) }, params)["y"] as Tensor;
    const [left, right] = await y.data();
    expect(left).toBeCloseTo(15, 3);
    expect(right).toBeCloseTo(28, 3);
    // Constants too may be given.
    const moved = model.apply({ x: tensor([[5, 5]]) }, { ...params, variance: tensor([4, 4]) })["y"] as Tensor;
    expect((await moved.data())[0]).toBeCloseTo(12.5, 3);
  });

  test("a weight that a known branch gives on is the one that is given", async () => {
    const branch = (name: string): AttributeProto => ({
      name,
      type: 5,
      g: { node: [node("Identity", ["w"], [name])], initializer: [], input: [], output: [{ name }] },
    });
    const yes: TensorProto = { name: "yes", dims: [], dataType: 9, int32Data: [1] };
    const model = parse(
      [node("If", ["yes"], ["z"], [branch("then_branch"), branch("else_branch")]), node("Add", ["x", "z"], ["y"])],
      [yes, row],
    );
    const y = model.apply({ x: tensor([0, 0]) }, { w: tensor([5, 6]) })["y"] as Tensor;
    expect(Array.from(await y.data())).toEqual([5, 6]);
  });
});

describe("arguments of an export", () => {
  const type = { shape: [2], dtype: "f32" } as const;
  const same = ({ x }: { x: Tensor }) => ({ y: x.add(1) });
  test.each<[string, unknown[], string, RegExp]>([
    ["no function", [3, { x: type }], "argument", /takes a function, got 3/],
    ["no example", [same], "argument", /the example is a record of inputs by name, got undefined/],
    ["a type alone", [same, type], "argument", /input "shape" is \[2\], not \{ shape, dtype \}/],
    ["a tensor alone", [same, tensor([1, 2])], "argument", /the example is a record/],
    [
      "a shape alone",
      [same, { x: [2, 3] }],
      "argument",
      /input "x" is \[2,3\], not \{ shape, dtype \}[\s\S]*write \{ x: /,
    ],
    [
      "a dtype of others",
      [same, { x: { shape: [2], dtype: "float32" } }],
      "dtype",
      /input "x": there is no dtype "float32"/,
    ],
    [
      "a shape of texts",
      [same, { x: { shape: ["3"], dtype: "f32" } }],
      "shape",
      /input "x": a shape is an array of sizes/,
    ],
    ["a number made", [() => 3, { x: type }], "argument", /must make a tensor or tensors by name, but made 3/],
    ["nothing made", [() => undefined, { x: type }], "argument", /but made undefined/],
    ["a promise made", [async () => tensor(1), { x: type }], "argument", /but made a Promise/],
    ["none made", [() => ({}), { x: type }], "argument", /but made none/],
    ["a tree made", [({ x }: { x: Tensor }) => ({ y: { z: x } }), { x: type }], "argument", /but "y" is \{ z \}/],
    ["an input's name", [({ x }: { x: Tensor }) => ({ x }), { x: type }], "argument", /but "x" is an input too/],
    [
      "names of text",
      [same, { x: type }, { names: "w" }],
      "option",
      /names must be a tree of tensors, such as params, got "w"/,
    ],
    ["a wrong option", [same, { x: type }, { nam: "w" }], "option", /unknown option 'nam'/],
  ])("%s", async (_title, given, code, said) => {
    const error = await (io.exportOnnx as (...all: unknown[]) => Promise<unknown>)(...given).catch(
      (reason: unknown) => reason,
    );
    expect(error).toMatchObject({ code, message: expect.stringMatching(said) });
    await expect((io.saveOnnx as (...all: unknown[]) => Promise<unknown>)("/dev/null/none", ...given)).rejects.toThrow(
      said,
    );
  });

  test("outputs keep their names, whatever is named so within", async () => {
    const weight = tensor([1, 2]);
    const fn = ({ x }: { x: Tensor }) => ({ number: x.mul(weight).add(1), w: x, Mul_0: x.mul(2) });
    const bytes = await io.exportOnnx(fn, { x: type }, { names: { w: weight } });
    const got = io.parseOnnx(bytes).run({ x: tensor([3, 4]) });
    const numbers = Object.entries(got).map(async ([name, value]) => [name, Array.from(await value.data())] as const);
    expect(Object.fromEntries(await Promise.all(numbers))).toEqual({ number: [4, 9], w: [3, 4], Mul_0: [6, 8] });
  });
});
