/** @module Functions that are exported with open sizes, and the numbers that they are run with: rows of tests here and with ONNX Runtime. */
import { losses, nn, random, type Tensor } from "heddle";
import type { ExportableFunction } from "../../src/adapters/onnx/export.ts";
import type { OpenType } from "../../src/adapters/onnx/export-open.ts";
import * as h from "../../src/functions/index.ts";
import type { DType } from "../../src/ir/dtype.ts";
import type { TensorType } from "../../src/ir/shape.ts";

export interface ExportedOpen {
  readonly name: string;
  readonly fn: ExportableFunction;
  readonly inputs: { readonly [name: string]: OpenType };
  /** A number for each open size, once for each run. */
  readonly runs: readonly { readonly [size: string]: number }[];
}

const typed = (dtype: DType, shape: OpenType["shape"]): OpenType => ({ dtype, shape });
const f32 = (...shape: (number | string)[]): OpenType => typed("f32", shape);
const i32 = (...shape: (number | string)[]): OpenType => typed("i32", shape);
const rows = [{ n: 1 }, { n: 3 }, { n: 8 }];

function network(name: string, layer: nn.Layer, input: OpenType, runs: ExportedOpen["runs"] = rows): ExportedOpen {
  const variables = layer.init(random.key(1), { ...input, shape: input.shape.map((size) => Number(size) || 12) });
  return { name, fn: ({ x }) => layer.apply(variables, x as Tensor).y, inputs: { x: input }, runs };
}

const one = (name: string, fn: (x: Tensor) => Tensor, x: OpenType, runs: ExportedOpen["runs"] = rows) => ({
  name,
  fn: ((given) => fn(given["x"] as Tensor)) as ExportableFunction,
  inputs: { x },
  runs,
});
const two = (
  name: string,
  fn: (x: Tensor, y: Tensor) => Tensor,
  x: OpenType,
  y: OpenType,
  runs: ExportedOpen["runs"] = rows,
) => ({
  name,
  fn: ((given) => fn(given["x"] as Tensor, given["y"] as Tensor)) as ExportableFunction,
  inputs: { x, y },
  runs,
});
const sequences = [
  { n: 1, t: 1 },
  { n: 2, t: 5 },
  { n: 4, t: 3 },
];

export const exportedOpen: readonly ExportedOpen[] = [
  network(
    "convnet",
    nn.sequential(
      nn.conv2d({ out: 4, kernel: 3, padding: 1 }),
      nn.batchNorm(),
      nn.relu(),
      nn.maxPool2d(2),
      nn.flatten(),
      nn.dropout(0.5),
      nn.linear(3),
      nn.logSoftmax(),
    ),
    f32("n", 2, 6, 6),
  ),
  network("sizes of images", nn.sequential(nn.conv2d({ out: 3, kernel: 3 }), nn.gelu()), f32("n", 2, "h", "w"), [
    { n: 1, h: 5, w: 9 },
    { n: 2, h: 8, w: 4 },
  ]),
  network("gru", nn.gru({ hidden: 3 }), f32("n", 4, 2)),
  network("lstm over any time", nn.lstm({ hidden: 3, bidirectional: true }), f32("n", "t", 2), sequences),
  network("transformer", nn.transformerEncoder({ layers: 1, heads: 2, feedForward: 4 }), f32("n", "t", 4), sequences),
  network("group norm", nn.groupNorm(2), f32("n", 4, 3, 3)),
  one("products of sizes", (x) => x.reshape([-1]).mul(2), f32("n", "t", 3), sequences),
  one(
    "slices, pads and parts",
    (x) =>
      h.pad(h.concat([x.slice([0, 1], [x.shape[0] as number, 3]), x], 1), [
        [1, 2],
        [0, 0],
      ]),
    f32("n", 4),
  ),
  one("all but the first", (x) => x.slice([1, 0], [...x.shape]), f32("n", 4), [{ n: 2 }, { n: 5 }]),
  one(
    "repeated",
    (x) =>
      x
        .reshape([-1, 1, 3])
        .broadcastTo([x.shape[0] as number, 2, 3])
        .reshape([-1, 3]),
    f32("n", 3),
  ),
  one("positions", (x) => x.add(h.arange(x.shape[0] as number, { dtype: "f32" }).reshape([-1, 1])), f32("n", 3)),
  one("means", (x) => x.sub(x.mean(0)).mul(x.shape[0] as number), f32("n", 3)),
  one("zeros of its size", (x) => h.zeros([...x.shape]).add(x), f32("n", 3)),
  one("sort and topK", (x) => h.sort(x, 1).add(h.topK(x, 1, 1).values), f32("n", 5)),
  one("reversed", (x) => h.reverse(x, [0]), f32("n", 2)),
  two("two of the same size", (x, y) => x.add(y), f32("n", 3), f32("n", 1)),
  two("of two sizes", (x, y) => x.matmul(y), f32("n", 3), f32(3, "m"), [
    { n: 2, m: 5 },
    { n: 4, m: 1 },
  ]),
  two(
    "sums of sizes",
    (x, y) =>
      h
        .concat([x, y], 1)
        .reshape([-1])
        .add(h.zeros([(x.shape[1] as number) + (y.shape[1] as number)])),
    f32(1, "past"),
    f32(1, "now"),
    [
      { past: 3, now: 1 },
      { past: 2, now: 4 },
    ],
  ),
  two("cross-entropy", (x, y) => losses.softmaxCrossEntropy(x, y), f32("n", 5), i32("n")),
  two("gather of a batch", (x, y) => h.gather(x, y, 1), f32("n", 5, 3), i32("n", 2)),
];

/** The types of a run. */
export const typesOf = ({ inputs }: ExportedOpen, run: { readonly [size: string]: number }) =>
  Object.fromEntries(
    Object.entries(inputs).map(([name, { dtype, shape }]): [string, TensorType] => [
      name,
      { dtype, shape: shape.map((size) => (typeof size === "string" ? (run[size] as number) : size)) },
    ]),
  );
