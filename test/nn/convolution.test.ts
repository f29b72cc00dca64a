/** Convolution and pooling layers: names and shapes of PyTorch's modules, values of the functions they are made of. */
import * as heddle from "heddle";
import { nn, random, type Tensor } from "heddle";
import { describe, expect, test } from "vitest";
import { isTensor } from "../../src/functions/index.ts";
import { flattenTree } from "../../src/util/tree.ts";
import { expectClose } from "../support/close.ts";

const key = random.key(0);
type Shapes = { readonly [path: string]: readonly number[] };

const layers: readonly (readonly [string, nn.Layer, readonly number[], Shapes, readonly number[]])[] = [
  ["conv1d", nn.conv1d({ out: 4, kernel: 3, groups: 2 }), [2, 6, 8], { weight: [4, 3, 3], bias: [4] }, [2, 4, 6]],
  [
    "conv2d",
    nn.conv2d({ out: 4, kernel: [3, 2], groups: 2, strides: 2, bias: false }),
    [1, 6, 8, 8],
    { weight: [4, 3, 3, 2] },
    [1, 4, 3, 4],
  ],
  [
    "conv3d",
    nn.conv3d({ out: 4, kernel: 3, padding: "same" }),
    [1, 2, 3, 4, 5],
    { weight: [4, 2, 3, 3, 3], bias: [4] },
    [1, 4, 3, 4, 5],
  ],
  [
    "around",
    nn.conv2d({ out: 1, kernel: 3, padding: 1, paddingMode: "circular" }),
    [1, 2, 4, 5],
    { weight: [1, 2, 3, 3], bias: [1] },
    [1, 1, 4, 5],
  ],
  [
    "depthwise",
    nn.depthwiseConv2d({ kernel: 3, multiplier: 2 }),
    [1, 5, 4, 4],
    { weight: [10, 1, 3, 3], bias: [10] },
    [1, 10, 2, 2],
  ],
  [
    "separable",
    nn.separableConv2d({ out: 7, kernel: 3, padding: 1 }),
    [1, 5, 4, 4],
    { "depthwise.weight": [5, 1, 3, 3], "pointwise.weight": [7, 5, 1, 1], "pointwise.bias": [7] },
    [1, 7, 4, 4],
  ],
  [
    "transposed 1-D",
    nn.convTranspose1d({ out: 6, kernel: 3, strides: 2 }),
    [1, 4, 5],
    { weight: [4, 6, 3], bias: [6] },
    [1, 6, 11],
  ],
  [
    "transposed 2-D",
    nn.convTranspose2d({ out: 6, kernel: 3, strides: 2, padding: 1, outputPadding: 1, groups: 2 }),
    [1, 4, 5, 6],
    { weight: [4, 3, 3, 3], bias: [6] },
    [1, 6, 10, 12],
  ],
  [
    "transposed 3-D",
    nn.convTranspose3d({ out: 2, kernel: 2 }),
    [1, 1, 2, 3, 2],
    { weight: [1, 2, 2, 2, 2], bias: [2] },
    [1, 2, 3, 4, 3],
  ],
  ["max 1-D", nn.maxPool1d(2), [1, 2, 7], {}, [1, 2, 3]],
  ["max 3-D", nn.maxPool3d(2, { ceilMode: true }), [1, 2, 3, 4, 5], {}, [1, 2, 2, 2, 3]],
  ["average 2-D", nn.avgPool2d(3, { strides: 2, padding: 1, countIncludePad: false }), [1, 2, 5, 6], {}, [1, 2, 3, 3]],
  ["adaptive average", nn.adaptiveAvgPool2d([2, 3]), [1, 2, 5, 7], {}, [1, 2, 2, 3]],
  ["adaptive maximum", nn.adaptiveMaxPool1d(3), [1, 2, 7], {}, [1, 2, 3]],
  ["global average", nn.globalAvgPool(), [2, 3, 4, 5], {}, [2, 3]],
  ["global maximum", nn.globalMaxPool(), [2, 3, 4], {}, [2, 3]],
];

describe("names and shapes", () => {
  test.each(layers)("%s", (_title, layer, shape, expected, out) => {
    const { params, output } = layer.init(key, { shape, dtype: "f32" });
    const { leaves, paths } = flattenTree(params, isTensor);
    expect(Object.fromEntries(paths.map((path, at) => [path, (leaves[at] as Tensor).shape]))).toEqual(expected);
    expect(output).toEqual({ shape: out, dtype: "f32" });
    expect(layer.apply({ params, state: {} }, heddle.ones(shape)).y.shape).toEqual(out);
  });
});

test("a layer is its function and a bias", async () => {
  const x = random.normal(key, [2, 4, 5, 5]);
  const layer = nn.conv2d({ out: 6, kernel: 3, padding: 1, groups: 2, init: { bias: nn.init.constant(0.5) } });
  const { params } = layer.init(key, x);
  const { y } = layer.apply({ params, state: {} }, x);
  const expected = heddle.conv2d(x, params["weight"] as Tensor, { padding: 1, groups: 2 }).add(0.5);
  expectClose(await y.data(), await expected.data(), 1e-6);
});

test.each([
  [
    "groups that divide nothing",
    () => nn.conv2d({ out: 4, kernel: 3, groups: 3 }).init(key, { shape: [1, 4, 5, 5], dtype: "f32" }),
    /conv2d|3 groups do not divide 4 channels and 4 output channels/,
  ],
  [
    "a mode that is none",
    () => nn.conv1d({ out: 1, kernel: 3, paddingMode: "wrap" as never }),
    /paddingMode is "wrap"/,
  ],
  [
    "a mode without numbers",
    () => nn.conv1d({ out: 1, kernel: 3, padding: "same", paddingMode: "reflect" }),
    /needs a padding in numbers/,
  ],
  [
    "too much outputPadding",
    () => heddle.convTranspose1d(heddle.ones([1, 1, 3]), heddle.ones([1, 1, 3]), { outputPadding: 1 }),
    /outputPadding 1 must be less/,
  ],
] as const)("%s is an error that says so", (_title, make, text) => {
  expect(make).toThrow(text);
});

test("every index of gatherNd and scatterNd must be inside", async () => {
  const x = heddle.ones([2, 3]);
  const where = heddle.tensor([[0, 3]], { dtype: "i32" });
  await expect(async () => heddle.gatherNd(x, where).data()).rejects.toThrow(/gatherNd: indices \[0, 3\] at position/);
  const at = heddle.tensor(
    [
      [1, 2],
      [0, 1],
      [1, 2],
    ],
    { dtype: "i32" },
  );
  const made = heddle.scatterNd(x, at, heddle.tensor([5, 6, 7]), { op: "sum" });
  expect([...(await made.data())]).toEqual([1, 7, 1, 1, 1, 13]);
  expect([...(await heddle.gatherNd(made, at).data())]).toEqual([13, 7, 13]);
});

test("conveniences give what NumPy gives", async () => {
  const values = async (x: Tensor): Promise<number[]> => [...(await x.data())];
  const x = heddle.arange(6).reshape([2, 3]);
  expect(await values(heddle.stack([x, x], -1))).toEqual([0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]);
  expect((await Promise.all(heddle.unstack(x, 1).map(values))).map(String)).toEqual(["0,3", "1,4", "2,5"]);
  expect((await Promise.all(heddle.split(x, 2, 1).map(values))).map(String)).toEqual(["0,1,3,4", "2,5"]);
  const [a, b] = heddle.meshgrid([heddle.arange(2), heddle.arange(3)], { indexing: "xy" }) as [Tensor, Tensor];
  expect([await values(a), await values(b)]).toEqual([
    [0, 1, 0, 1, 0, 1],
    [0, 0, 1, 1, 2, 2],
  ]);
  expect(await values(heddle.eye(2))).toEqual([1, 0, 0, 1]);
  expect(await values(heddle.eye(2, 3))).toEqual([1, 0, 0, 0, 1, 0]);
  expect(await values(heddle.eye(2, 1, { dtype: "i32" }))).toEqual([1, 0]);
  expect([heddle.eye(2, { dtype: "f64" }).dtype, heddle.eye(0, 2).shape]).toEqual(["f64", [0, 2]]);
  expect(
    await values(
      heddle.argMin(
        heddle.tensor(
          [
            [3, 1, 1],
            [-5, 7, -5],
          ],
          { dtype: "i32" },
        ),
      ),
    ),
  ).toEqual([1, 0]);
  expect(await values(heddle.argMin(heddle.tensor([2, Number.NaN, 1])))).toEqual([1]);
  expect([await values(heddle.all(x.gt(-1))), await values(heddle.any(x.gt(4), 1))]).toEqual([[1], [0, 1]]);
  expect(await values(heddle.dynamicSlice(x, [heddle.tensor(1, { dtype: "i32" }), 1], [1, 2]))).toEqual([4, 5]);
  expect(await values(heddle.dynamicUpdateSlice(x, heddle.zeros([1, 2]).cast(x.dtype), [0, 1]))).toEqual([
    0, 0, 0, 3, 4, 5,
  ]);
  expect(await values(heddle.pad(heddle.tensor([1, 2, 3]), [[-1, 1, 1]]))).toEqual([0, 2, 0, 3, 0]);
  expect(heddle.squeeze(heddle.expandDims(x, 1)).shape).toEqual([2, 3]);
  expect(await values(heddle.segmentMean(heddle.tensor([1, 3]), heddle.tensor([0, 0], { dtype: "i32" }), 2))).toEqual([
    2,
    Number.NaN,
  ]);
  expect(await values(heddle.where(x.gt(2), x, 0))).toEqual([0, 0, 0, 3, 4, 5]);
});
