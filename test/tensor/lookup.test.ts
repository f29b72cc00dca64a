/** Positions that count from the end, and ids that do not. */
import { describe, expect, test } from "vitest";
import {
  dynamicSlice,
  dynamicUpdateSlice,
  gather,
  gatherNd,
  grad,
  jit,
  scatter,
  scatterAdd,
  scatterAlongDim,
  scatterNd,
  segmentSum,
  slice,
  type Tensor,
  take,
  takeAlongDim,
  tensor,
  vmap,
} from "../../src/functions/index.ts";
import * as losses from "../../src/losses/index.ts";
import * as nn from "../../src/nn/index.ts";

const ids = (values: readonly unknown[]): Tensor => tensor(values as number[], { dtype: "i32" });
const x = tensor([
  [1, 2, 3],
  [4, 5, 6],
]);
const one = tensor([[9, 9, 9]]);

type Lookup = (x: Tensor, indices: Tensor) => Tensor;
/** What is looked up, at these indices, and at the same counted from the start. */
const lookups: readonly (readonly [string, Lookup, readonly unknown[], readonly unknown[]])[] = [
  ["take", (y, at) => take(y, at), [-1, 0, -2], [1, 0, 0]],
  ["take of columns", (y, at) => take(y, at, -1), [[-1], [-3]], [[2], [0]]],
  ["gather", (y, at) => gather(y, at), [[-2], [1]], [[0], [1]]],
  ["gather of batches", (y, at) => gather(y, at, 1), [[-1], [-3]], [[2], [0]]],
  ["takeAlongDim", (y, at) => takeAlongDim(y, at), [[-1], [1]], [[2], [1]]],
  [
    "gatherNd",
    (y, at) => gatherNd(y, at),
    [
      [-1, -1],
      [0, -3],
    ],
    [
      [1, 2],
      [0, 0],
    ],
  ],
  ["scatter", (y, at) => scatter(y, at, one), [-1], [1]],
  ["scatter by sum", (y, at) => scatter(y, at, one, { op: "sum" }), [-2], [0]],
  ["scatterNd", (y, at) => scatterNd(y, at, tensor([7])), [[-1, -2]], [[1, 1]]],
  ["scatterAlongDim", (y, at) => scatterAlongDim(y, at, tensor([[7], [8]])), [[-1], [0]], [[2], [0]]],
  ["scatterAdd", (y, at) => scatterAdd(y, at, 4), [-1, 1], [3, 1]],
  ["dynamicSlice", (y, at) => dynamicSlice(y, [0, at.reshape([])], [2, 2]), [-3], [0]],
  ["dynamicSlice, moved", (y, at) => dynamicSlice(y, [-1, at.reshape([])], [2, 2]), [-1], [1]],
  ["dynamicUpdateSlice", (y, at) => dynamicUpdateSlice(y, one, [at.reshape([]), 0]), [-1], [1]],
];

describe("from the end", () => {
  test.each(lookups)("%s", (_what, look, negative, positive) => {
    const wanted = look(x, ids(positive)).arraySync();
    expect(look(x, ids(negative)).arraySync()).toEqual(wanted);
    expect(jit(look)(x, ids(negative)).arraySync()).toEqual(wanted);
    const slope = grad((y: Tensor, at: Tensor) => look(y, at).mul(2).sum());
    expect(slope(x, ids(negative)).arraySync()).toEqual(slope(x, ids(positive)).arraySync());
    const both = vmap((at: Tensor) => look(x, at))(ids([negative, positive]));
    expect(both.arraySync()).toEqual([wanted, wanted]);
  });

  test("slices", () => {
    const y = tensor([1, 2, 3, 4, 5]);
    expect(y.slice([-2], [5]).arraySync()).toEqual([4, 5]);
    expect(slice(y, [1], [-1]).arraySync()).toEqual([2, 3, 4]);
    expect(jit((z: Tensor) => z.slice([-4], [-1], [2]))(y).arraySync()).toEqual([2, 4]);
    expect(dynamicSlice(y, [-9], [2]).arraySync()).toEqual([1, 2]);
    expect(() => y.slice([-6], [5])).toThrow(/^slice: \[-6, 5\) by 1 is not inside dim 0 of f32\[5\]/);
    expect(() => y.slice([-1], [-2])).toThrow(/^slice: \[4, 3\) by 1 is not inside/);
  });
});

describe("outside", () => {
  const outside: readonly (readonly [string, () => Tensor, RegExp])[] = [
    ["before the first", () => take(x, ids([0, -3])), /^take: index -3 at position 1 is outside \[-2, 2\)/],
    ["after the last", () => gather(x, ids([2])), /^gather: index 2 at position 0 is outside \[-2, 2\)/],
    [
      "along a dim",
      () => takeAlongDim(x, ids([[3], [0]])),
      /^takeAlongDim: index 3 at position 0 is outside \[-3, 3\)/,
    ],
    [
      "of several parts",
      () => gatherNd(x, ids([[0, -4]])),
      /^gatherNd: indices \[0, -4\] at position 0 are outside \[2,3\]/,
    ],
    ["of an update", () => scatter(x, ids([-7]), one), /^scatter: index -7 at position 0 is outside \[-2, 2\)/],
    ["of a sum", () => scatterAdd(one, ids([-5]), 4), /^scatterAdd: index -5 at position 0 is outside \[-4, 4\)/],
    [
      "an id",
      () => nn.embedding(2, 3).apply({ params: { weight: x }, state: {} }, ids([-1])).y,
      /^embedding: index -1 at position 0 is outside \[0, 2\)/,
    ],
    ["a segment", () => segmentSum(x, ids([0, -1]), 2), /^segmentSum: index -1 at position 1 is outside \[0, 2\)/],
    ["a label", () => losses.nll(x, ids([0, -1])), /^nll: label -1 at row 1 is outside \[0, 3\)/],
  ];
  test.each(outside)("%s", async (_what, make, message) => {
    for (const run of [make, () => jit(make)()]) await expect((async () => run().data())()).rejects.toThrow(message);
  });
});
