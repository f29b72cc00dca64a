/** Models with their architecture in a file: every layer of nn comes back as it was; code of users is refused. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { io, keras, nn, random, type Tensor, train } from "heddle";
import { afterAll, describe, expect, test } from "vitest";
import { readSafetensors } from "../../src/io/safetensors.ts";
import { layersWithin } from "../../src/nn/composite.ts";
import { recipeOf } from "../../src/nn/layer.ts";
import { layerAsData, layerOfData } from "../../src/nn/recipe.ts";
import { HeddleError } from "../../src/util/errors.ts";
import { expectClose } from "../support/close.ts";
import { bars, options } from "../train/synthetic.ts";

const folder = mkdtempSync(join(tmpdir(), "saved-model-"));
afterAll(() => rmSync(folder, { recursive: true }));
const at = (name: string): string => join(folder, name);
const f32 = (...shape: number[]) => ({ shape, dtype: "f32" as const });
const ids = (...shape: number[]) => ({ shape, dtype: "i32" as const });
const key = random.key(0);

const flat = f32(4, 6);
const places = f32(4, 6, 8);
const line = f32(4, 2, 8);
const image = f32(4, 2, 8, 8);
const volume = f32(2, 2, 4, 4, 4);

/** One of each function that makes a layer, by its name. */
const each: {
  readonly [name: string]: readonly [layer: nn.Layer, input: { shape: readonly number[]; dtype: "f32" | "i32" }];
} = {
  ...Object.fromEntries(
    (
      [
        "celu",
        "elu",
        "flatten",
        "gelu",
        "hardshrink",
        "hardsigmoid",
        "hardswish",
        "hardtanh",
        "leakyRelu",
        "logSigmoid",
        "mish",
        "prelu",
        "relu",
        "relu6",
        "rrelu",
        "selu",
        "sigmoid",
        "silu",
        "softplus",
        "softshrink",
        "softsign",
        "tanh",
        "tanhshrink",
      ] as const
    ).map((name) => [name, [nn[name](), flat]]),
  ),
  glu: [nn.glu(1), flat],
  softmax: [nn.softmax(0), flat],
  logSoftmax: [nn.logSoftmax(0), flat],
  softmin: [nn.softmin(), flat],
  softmax2d: [nn.softmax2d(), image],
  threshold: [nn.threshold({ threshold: 0.1, value: 2 }), flat],
  linear: [nn.linear(3, { bias: false, init: { weight: nn.init.zeros() } }), flat],
  embedding: [nn.embedding(5, 3, { paddingIdx: 1 }), ids(4)],
  embeddingBag: [nn.embeddingBag(5, 3), ids(4, 2)],
  adaptiveLogSoftmax: [nn.adaptiveLogSoftmax({ classes: 9, cutoffs: [3] }), flat],
  dropout: [nn.dropout(0.5), flat],
  alphaDropout: [nn.alphaDropout(0.5), flat],
  dropout1d: [nn.dropout1d(0.5), line],
  dropout2d: [nn.dropout2d(0.5), image],
  dropout3d: [nn.dropout3d(0.5), volume],
  conv1d: [nn.conv1d({ out: 2, kernel: 3 }), line],
  conv2d: [nn.conv2d({ out: 2, kernel: [3, 1], strides: 2, padding: "same" }), image],
  conv3d: [nn.conv3d({ out: 2, kernel: 2 }), volume],
  convTranspose1d: [nn.convTranspose1d({ out: 2, kernel: 3 }), line],
  convTranspose2d: [nn.convTranspose2d({ out: 2, kernel: 3, strides: 2 }), image],
  convTranspose3d: [nn.convTranspose3d({ out: 2, kernel: 2 }), volume],
  depthwiseConv2d: [nn.depthwiseConv2d({ kernel: 3, multiplier: 2 }), image],
  separableConv2d: [nn.separableConv2d({ out: 3, kernel: 3 }), image],
  localResponseNorm: [nn.localResponseNorm(2), image],
  batchNorm: [nn.batchNorm({ momentum: null }), image],
  layerNorm: [nn.layerNorm({ dims: 2, bias: false }), places],
  rmsNorm: [nn.rmsNorm({ epsilon: 1e-3 }), places],
  groupNorm: [nn.groupNorm(2, { affine: false }), image],
  instanceNorm: [nn.instanceNorm({ affine: true }), image],
  globalAvgPool: [nn.globalAvgPool(), image],
  globalMaxPool: [nn.globalMaxPool(), image],
  maxPool1d: [nn.maxPool1d(2), line],
  maxPool2d: [nn.maxPool2d(2, { strides: 1 }), image],
  maxPool3d: [nn.maxPool3d(2), volume],
  avgPool1d: [nn.avgPool1d(2), line],
  avgPool2d: [nn.avgPool2d(2, { padding: 1 }), image],
  avgPool3d: [nn.avgPool3d(2), volume],
  adaptiveAvgPool1d: [nn.adaptiveAvgPool1d(3), line],
  adaptiveAvgPool2d: [nn.adaptiveAvgPool2d(3), image],
  adaptiveAvgPool3d: [nn.adaptiveAvgPool3d(2), volume],
  adaptiveMaxPool1d: [nn.adaptiveMaxPool1d(3), line],
  adaptiveMaxPool2d: [nn.adaptiveMaxPool2d([3, 2]), image],
  adaptiveMaxPool3d: [nn.adaptiveMaxPool3d(2), volume],
  rnn: [nn.rnn({ hidden: 3, nonlinearity: "relu" }), places],
  gru: [nn.gru({ hidden: 3, bidirectional: true }), places],
  lstm: [nn.lstm({ hidden: 3, layers: 2, output: "last" }), places],
  rnnCell: [nn.rnnCell({ hidden: 3 }), flat],
  gruCell: [nn.gruCell({ hidden: 3 }), flat],
  lstmCell: [nn.lstmCell({ hidden: 3 }), flat],
  multiHeadAttention: [nn.multiHeadAttention({ heads: 2, causal: true }), places],
  learnedPositions: [nn.learnedPositions(7), places],
  sinusoidalPositions: [nn.sinusoidalPositions({ base: 100 }), places],
  transformerEncoderLayer: [nn.transformerEncoderLayer({ heads: 2, feedForward: 4, activation: "gelu" }), places],
  decoderBlock: [nn.decoderBlock({ heads: 2, norm: "rms", rotary: true }), places],
  transformerEncoder: [nn.transformerEncoder({ heads: 2, layers: 2, feedForward: 4 }), places],
  sequential: [nn.sequential(nn.linear(3), nn.tanh()), flat],
  residual: [nn.residual(nn.linear(6)), flat],
  parallel: [nn.parallel({ a: nn.linear(3), b: nn.linear(2) }, "concat", { dim: -1 }), flat],
  remat: [nn.remat(nn.linear(3), { policy: "products" }), flat],
  frozen: [nn.frozen(nn.linear(3)), flat],
  lora: [nn.lora(nn.linear(3), { rank: 2, alpha: 3 }), flat],
};
/** No layers, or none that a file may hold. */
const others = [
  "activation",
  "applyLayer",
  "mergeLora",
  "module",
  "quantizeDynamic",
  "scopeKey",
  "transformerDecoderLayer",
  "uniformByFanIn",
  "summary",
];

test("there is one of each function that makes a layer", () => {
  const functions = Object.entries(nn).flatMap(([name, value]) => (typeof value === "function" ? [name] : []));
  expect(functions.filter((name) => each[name] === undefined && !others.includes(name))).toEqual([]);
});

test.each(Object.entries(each))("%s comes back from its data", async (name, [layer, input]) => {
  expect(recipeOf(layer)?.make).toBe(name);
  const text = JSON.stringify(layerAsData("test", layer));
  const again = layerOfData(JSON.parse(text), nn, (what) => new HeddleError("format", what));
  expect(JSON.stringify(layerAsData("test", again))).toBe(text);
  const x =
    input.dtype === "i32" ? random.randint(key, input.shape, { min: 0, max: 4 }) : random.normal(key, input.shape);
  const made = layer.init(key, input);
  if (name !== "linear") expect([...layersWithin(again)].length).toBe([...layersWithin(layer)].length);
  const outputs = [layer, again].map((one) => one.apply(made, x, { train: true, key }).y);
  expectClose(await (outputs[1] as Tensor).data(), await (outputs[0] as Tensor).data(), 0);
});

const small = { size: 4 };
const net = () => {
  const shared = nn.linear(16);
  return nn.sequential(nn.flatten(), shared, nn.batchNorm(), nn.relu(), nn.residual(shared, nn.tanh()), nn.linear(3));
};

test("train, keras and saveModel write it, each is read by each; a shared layer stays one", async () => {
  const model = net();
  const result = await train(options({ model, ema: 0.9, data: bars(24, small).batch(8), epochs: 1 }));
  const x = random.normal(key, [5, 1, 4, 4]);
  await result.save(at("result.safetensors"));
  const params = result.averaged as typeof result.params;
  const loaded = await io.loadModel(at("result.safetensors"));
  const wanted = await (await result.predict(bars(5, small))).data();
  expect(loaded.input).toEqual(f32(1, 1, 4, 4));
  expect(Object.keys(loaded.params)).toEqual(Object.keys(params));
  const again = await keras.loadModel(at("result.safetensors"));
  expectClose(await (await again.predict(bars(5, small))).data(), wanted, 1e-6);
  await again.save(at("keras.safetensors"));
  const second = await io.loadModel(at("keras.safetensors"));
  await io.saveModel(at("third.safetensors"), second.layer, second, { input: second.input });
  const third = await io.loadModel(at("third.safetensors"));
  const answers = await loaded.predict(x).data();
  for (const one of [second, third]) expectClose(await one.predict(x).data(), answers, 0);
  const { metadata } = await readSafetensors(at("third.safetensors"));
  expect(metadata.get("heddle.model")).toBe(
    (await readSafetensors(at("result.safetensors"))).metadata.get("heddle.model"),
  );
  // A model that is read is trained further.
  again.compile({ optimizer: "sgd", loss: "softmaxCrossEntropy" });
  await again.fit(bars(16, small), { verbose: 0 });
});

describe("refuses", () => {
  const own: nn.Layer = {
    kind: "own",
    init: (_key, input) => ({ params: {}, state: {}, output: input }),
    apply: (_v, x) => ({ y: x, state: {} }),
  };
  const codes: readonly (readonly [string, nn.Layer, RegExp])[] = [
    [
      "a function",
      nn.sequential(
        nn.relu(),
        nn.sequential((x) => x.neg()),
      ),
      /^saveModel: layer 1.0 \(activation\) is made by code of yours/,
    ],
    [
      "a module",
      nn.sequential(nn.module({ a: nn.relu() }, (l, x) => l.a(x))),
      /^saveModel: layer 0 \(module\) is made by code of yours[\s\S]*hint: keep the code/,
    ],
    ["a layer of one's own", own, /^saveModel: this own is made by code of yours/],
    [
      "a function of branches",
      nn.parallel([nn.relu()], (x) => x as Tensor),
      /^saveModel: parallel is .*which a file of layers cannot hold/,
    ],
    [
      "an activation of a transformer",
      nn.decoderBlock({ heads: 1, activation: (x) => x }),
      /^saveModel: decoderBlock: activation is /,
    ],
  ];
  test.each(codes)("%s", async (_name, layer, message) => {
    await expect(
      io.saveModel(at("none.safetensors"), layer, { params: {}, state: {} }, { input: [1, 2] }),
    ).rejects.toThrow(message);
  });

  test("files of variables alone, of a newer Heddle, and what makes no layer", async () => {
    await io.saveTensors(at("alone.safetensors"), { weight: random.normal(key, [2]) });
    await expect(io.loadModel(at("alone.safetensors"))).rejects.toThrow(/^loadModel: .*holds variables alone/);
    await io.saveOnnx(at("net.onnx"), ({ x }) => ({ y: x.exp() }), { x: f32(2) });
    await expect(io.loadModel(at("net.onnx"))).rejects.toThrow(/: it is an ONNX model\n.*read it with io\.loadOnnx/s);
    const load = async (data: unknown) => {
      const metadata = { "heddle.model": typeof data === "string" ? data : JSON.stringify(data) };
      await io.saveTensors(at("odd.safetensors"), { weight: random.normal(key, [2]) }, { metadata });
      return io.loadModel(at("odd.safetensors"));
    };
    const input = f32(1, 2);
    const good = { format: 1, library: "0.1.0", input, dtype: "f32" };
    await expect(load({ ...good, format: 2, library: "9.0" })).rejects.toThrow(
      /has model format 2[\s\S]*use the Heddle that wrote it: 9.0/,
    );
    for (const model of [
      { $layer: "constructor", args: [] },
      { $layer: "scopeKey", args: [] },
      { $layer: "init", args: [] },
      { $layer: "relu" },
      { $again: 3 },
      3,
      null,
      { $layer: "sequential", args: [3] },
    ])
      await expect(load({ ...good, model })).rejects.toBeInstanceOf(HeddleError);
    for (const data of ["{", "3", { ...good, input: {} }, { ...good, dtype: "f16" }])
      await expect(load(data)).rejects.toMatchObject({ code: "format" });
    await expect(load({ ...good, model: { $layer: "linear", args: [3] } })).rejects.toThrow(/does not fit the model/);
  });
});
