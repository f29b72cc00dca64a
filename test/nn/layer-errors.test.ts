/** What layers refuse, in their own words. */
import { jit, nn, ones, random, scaledDotProductAttention, type Tensor, tensor, zeros } from "heddle";
import { describe, expect, test } from "vitest";

const key = random.key(0);
const f32 = (...shape: number[]) => ({ shape, dtype: "f32" as const });
const made = (layer: nn.Layer, ...shape: number[]) => layer.init(key, f32(...shape));
const applied = (layer: nn.Layer, init: readonly number[], shape: readonly number[], options: nn.ApplyOptions = {}) =>
  layer.apply(layer.init(key, f32(...init)), zeros(shape), options);

type Case = readonly [string, () => unknown, RegExp];

const ids = nn.embedding(4, 2);
const long = { shape: [2], dtype: "i64" as const };
const shapes: readonly Case[] = [
  ["a vector for batchNorm", () => made(nn.batchNorm(), 4), /takes \[batch, channels\].*got f32\[4\]/],
  [
    "integers for layerNorm",
    () => nn.layerNorm().init(key, { shape: [2], dtype: "i32" }),
    /takes floats, got i32\[2\]/,
  ],
  ["one value per channel", () => applied(nn.batchNorm(), [1, 3], [1, 3], { train: true }), /more than one value/],
  [
    "one value per channel",
    () => applied(nn.instanceNorm(), [2, 3, 1], [2, 3, 1], { train: true }),
    /more than one value/,
  ],
  ["rows for instanceNorm", () => made(nn.instanceNorm(), 2, 3), /one to three more dims, got f32\[2,3\]/],
  ["more dims than there are", () => made(nn.layerNorm({ dims: 3 }), 2, 3), /last 3 dims, which f32\[2,3\]/],
  ["groups that do not divide", () => made(nn.groupNorm(3), 2, 4), /3 groups do not divide the 4 channels/],
  ["rows for an lstm", () => made(nn.lstm({ hidden: 2 }), 2, 3), /takes sequences \[batch, time, features\]/],
  ["sequences for a cell", () => made(nn.gruCell({ hidden: 2 }), 2, 3, 4), /takes \[batch, features\]/],
  ["heads that do not divide", () => made(nn.multiHeadAttention({ heads: 3 }), 2, 3, 4), /3 heads do not divide/],
  ["rows for a transformer", () => made(nn.decoderBlock({ heads: 1 }), 2, 4), /takes \[batch, positions, size\]/],
  ["an odd size of sines", () => made(nn.sinusoidalPositions(), 2, 3, 5), /even size\], got f32\[2,3,5\]/],
  ["too many positions", () => made(nn.learnedPositions(2), 2, 3, 4), /has 2 positions, too few for f32\[2,3,4\]/],
  ["images for dropout1d", () => made(nn.dropout1d(0.5), 2, 3, 4, 5), /takes \[batch, channels, length\], got/],
  ...(
    [
      [nn.linear(5), [2, 4], [2, 3], "[…, 4]"],
      [nn.layerNorm(), [2, 4], [2, 3], "[…, 4]"],
      [nn.batchNorm(), [2, 4], [2, 3], "[batch, 4, …]"],
      [nn.gru({ hidden: 2 }), [2, 3, 4], [2, 3, 5], "[…, 4]"],
      [nn.lstmCell({ hidden: 2 }), [2, 4], [2, 5], "[…, 4]"],
      [nn.multiHeadAttention({ heads: 1 }), [2, 3, 4], [2, 3, 5], "[…, 4]"],
    ] as const
  ).map(([layer, init, shape, wanted]): Case => {
    const text = `${layer.kind}): takes ${wanted}, as its parameters are for 4 features, got f32[${shape}]`;
    const says = new RegExp(`^layer 1 \\(${text.replace(/[()[\]]/g, "\\$&")}`);
    return [`another width for ${layer.kind}`, () => applied(nn.sequential(nn.relu(), layer), init, shape), says];
  }),
  [
    "an id beyond i32",
    () => ids.apply(ids.init(key, long), tensor([1n, 2n ** 32n + 1n])),
    /^embedding: index 4294967297 at position 1 is outside \[0, 4\)/,
  ],
  [
    "a traced one",
    () => jit((x: Tensor) => ids.apply(ids.init(key, long), x).y)(tensor([-(2n ** 40n)])).dataSync(),
    /^embedding: index -2147483648 or less at position 0 is/,
  ],
  ["floats for a bag", () => made(nn.embeddingBag(3, 2), 2, 3), /takes ids, which are whole numbers/],
];

const options: readonly Case[] = [
  [
    "ids of floats",
    () => ids.apply(ids.init(key, { shape: [2], dtype: "i32" }), tensor([0.5, 1.5])),
    /^embedding: takes ids, which are whole numbers, got f32\[2\][\s\S]*hint: cast/,
  ],
  [
    "a precision",
    () => applied(nn.linear(2), [2, 3], [2, 3], { precision: "f8" as never }),
    /^linear: apply: precision must be f32 or f64 or f16 or bf16, got "f8"/,
  ],
  [
    "a precision of integers",
    () => applied(nn.sequential(nn.linear(2)), [2, 3], [2, 3], { precision: "i32" }),
    /^sequential: apply: precision must be .*got "i32"/,
  ],
  ["groups", () => nn.batchNorm({ groups: 0 }), /groups must be .*got 0/],
  [
    "one value per channel and group",
    () => applied(nn.batchNorm({ groups: 2 }), [2, 3], [2, 3], { train: true }),
    /more than one value per channel in each of 2 groups/,
  ],
  ["momentum", () => nn.batchNorm({ momentum: 2 }), /momentum must be .*at most 1, got 2/],
  ["a name", () => nn.layerNorm({ epsilons: 1 } as never), /unknown option 'epsilons'.*epsilon/s],
  ["hidden", () => nn.lstm({ hidden: 0 }), /lstm: hidden must be at least 1/],
  ["nonlinearity", () => nn.rnn({ hidden: 2, nonlinearity: "sin" as never }), /must be tanh or relu, got sin/],
  ["output", () => nn.gru({ hidden: 2, output: "all" as never }), /must be sequence or last, got all/],
  ["groups", () => nn.multiHeadAttention({ heads: 4, groups: 3 }), /4 heads cannot share 3 groups/],
  [
    "activation",
    () => nn.transformerEncoderLayer({ heads: 2, activation: "cube" as never }),
    /relu, gelu or a function/,
  ],
  ["paddingIdx", () => nn.embedding(3, 2, { paddingIdx: 3 }), /paddingIdx must be .*at most 2, got 3/],
  ["mode", () => nn.embeddingBag(3, 2, { mode: "min" as never }), /must be sum, mean or max, got min/],
];

const lstm = nn.lstm({ hidden: 2 });
const run = (given: nn.RunOptions) => lstm.run(lstm.init(key, f32(3, 4, 5)), zeros([3, 4, 5]), given);
const qkv = (q: number[], k: number[], v: number[], mask?: Tensor) => () =>
  scaledDotProductAttention(zeros(q), zeros(k), zeros(v), { mask });
const alone = nn.multiHeadAttention({ heads: 2 });
const heeding = (shape: number[], more: object) => () => applied(alone, shape, shape, more);
const seen = ones([3, 3], { dtype: "bool" });
const attention: readonly Case[] = [
  [
    "states of another shape",
    () => run({ initial: { h: zeros([1, 3, 2]), c: zeros([1, 3, 3]) } }),
    /^lstm: initial states are h and c of f32\[1,3,2\] each, got f32\[1,3,2\] and f32\[1,3,3\]/,
  ],
  [
    "a length above the steps",
    () => run({ lengths: tensor([1, 2, 5], { dtype: "i32" }) }),
    /^lstm: lengths: sequence 2 has length 5, but there are 4 steps/,
  ],
  ["a length below 0", () => run({ lengths: tensor([0, -1, 4], { dtype: "i32" }) }), /sequence 1 has length -1/],
  ["lengths of floats", () => run({ lengths: zeros([3]) }), /lengths are i32\[3\], one per sequence, got f32\[3\]/],
  ["sizes that differ", qkv([2, 3, 4], [2, 3, 5], [2, 3, 5]), /last dims of queries and keys differ; got f32\[2,3,4\]/],
  ["keys without values", qkv([2, 3, 4], [2, 5, 4], [2, 6, 4]), /keys and values differ in number/],
  ["heads that do not share", qkv([3, 3, 4], [2, 5, 4], [2, 5, 4]), /3 heads of queries cannot share 2 of keys/],
  ["no keys", qkv([2, 3, 4], [2, 0, 4], [2, 0, 4]), /there are no keys/],
  ["batches that differ", qkv([2, 1, 3, 4], [3, 1, 3, 4], [3, 1, 3, 4]), /batch dims differ/],
  [
    "a mask that does not fit",
    qkv([2, 3, 4], [2, 5, 4], [2, 5, 4], zeros([3, 4])),
    /does not broadcast to the scores \[2,3,5\]/,
  ],
  [
    "a mask of integers",
    qkv([2, 3], [2, 3], [2, 3], tensor([1, 1], { dtype: "i32" })),
    /a mask is bool or f32, got i32\[2\]/,
  ],
  [
    "dropout without a key",
    () => scaledDotProductAttention(zeros([2, 3]), zeros([2, 3]), zeros([2, 3]), { dropout: 0.5 }),
    /needs a random key/,
  ],
  [
    "a mask of keys or of queries, of self-attention",
    heeding([3, 3, 4], { mask: seen }),
    /^multiHeadAttention: a mask bool\[3,3\] may be of \[queries, keys\] or of \[batch, keys\], as there are 3 of both[\s\S]*present: mask [\s\S]*mask\.reshape\(\[1, 1, 3, 3\]\)/,
  ],
  [
    "a mask that is an array",
    heeding([3, 3, 4], { mask: [[true]] as never }),
    /^multiHeadAttention: mask: operand 0 is \[\[true\]\], not a tensor/,
  ],
  [
    "one of a memory's",
    heeding([3, 3, 4], { memory: zeros([3, 5, 4]), mask: ones([3, 5], { dtype: "bool" }) }),
    /a mask bool\[3,5\] may be of[\s\S]*reshape\(\[1, 1, 3, 5\]\)/,
  ],
  ["an odd size to turn", () => nn.functional.rotaryEmbedding(zeros([2, 3])), /even size\], got f32\[2,3\]/],
];

describe.each([
  ["shapes", shapes],
  ["options", options],
  ["inputs", attention],
])("%s", (_name, cases) => {
  test.each(cases)("%s", (_what, fn, message) => {
    expect(fn).toThrow(message);
  });
});

test.each<[string, number[], object]>([
  ["what is meant by it is said", [3, 3, 4], { present: seen }],
  ["it has the dims of the scores", [3, 3, 4], { mask: seen.reshape([1, 1, 3, 3]) }],
  ["there are other sequences than queries", [2, 3, 4], { mask: seen }],
  ["both are given", [3, 3, 4], { mask: seen, present: seen }],
  ["it is added", [3, 3, 4], { mask: zeros([3, 3]) }],
])("a mask is taken where %s", (_what, shape, more) => {
  expect(heeding(shape, more)).not.toThrow();
});

test("errors name the layer's place", () => {
  const model = nn.sequential(nn.linear(6), nn.transformerEncoder({ layers: 1, heads: 4 }));
  expect(() => model.init(key, f32(2, 3, 5))).toThrow(
    /layer 1\.layers\.0\.self_attn \(multiHeadAttention\): 4 heads do not/,
  );
});
