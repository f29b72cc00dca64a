/** @module Rows of access by index, random bits and the composites over rows of logits. */
import type { HostTensor, Node } from "../../../src/ir/node.ts";
import { call, foldIn, randomBits, resultsOf } from "../../../src/ops/index.ts";
import type { Row } from "../../support/row.ts";
import { at, build, floats, given, ints, scalar, total } from "../../support/tensors.ts";

const index = (...values: number[]) => given("i32", [values.length], values);

const gatherRows: readonly Row[] = [
  {
    op: "gather",
    title: "rows",
    inputs: [floats([8, 4]), given("i32", [4, 2], [4, 0, 1, 1, 3, 2, 0, 4])],
    attrs: { batchDims: 0 },
    expected: (x, where) => [build([4, 2, 4], (a, b, c) => at(x, [at(where, [a, b]), c]))],
    gradient: true,
    shardings: ["S(0), R -> P(sum)", "S(1), R -> S(2)", "R, S(0) -> S(0)", "R, S(1) -> S(1)", "P(sum), R -> P(sum)"],
  },
  {
    op: "gather",
    title: "one of each row",
    inputs: [floats([4, 4]), index(2, 0, 1, 1)],
    attrs: { batchDims: 1 },
    expected: (x, where) => [build([4], (a) => at(x, [a, at(where, [a])]))],
    gradient: true,
    shardings: ["S(0), S(0) -> S(0)", "S(1), R -> P(sum)", "P(sum), R -> P(sum)"],
  },
  {
    op: "gather",
    title: "no indices",
    inputs: [floats([3, 2]), given("i32", [0], [])],
    attrs: { batchDims: 0 },
    expected: () => [[]],
    gradient: true,
  },
  {
    op: "gather",
    title: "scalar index",
    inputs: [given("u8", [3, 2], [1, 2, 3, 4, 5, 6]), scalar("i32", 1)],
    attrs: { batchDims: 0 },
    expected: () => [[3, 4]],
    gradient: false,
  },
  {
    op: "gather",
    title: "negative index",
    inputs: [given("f32", [2, 2], [1, 2, 3, 4]), index(-1)],
    attrs: { batchDims: 0 },
    fails: /gather.*-1.*\[0, 2\)/,
    gradient: false,
  },
  {
    op: "gather",
    title: "index past the end",
    inputs: [given("f32", [2, 2], [1, 2, 3, 4]), index(0, 2)],
    attrs: { batchDims: 0 },
    fails: /gather.*2.*position 1.*\[0, 2\)/,
    gradient: false,
  },
];

const scatterRows: readonly Row[] = [
  {
    op: "scatterAdd",
    title: "rows, some twice",
    inputs: [floats([4, 4]), index(2, 0, 2, 1)],
    attrs: { batchDims: 0, size: 8 },
    expected: (updates, where) => [
      build([8, 4], (a, b) => total(build([4], (i) => (at(where, [i]) === a ? at(updates, [i, b]) : 0)))),
    ],
    gradient: true,
    shardings: ["S(0), S(0) -> P(sum)", "S(1), R -> S(1)", "P(sum), R -> P(sum)", "R, R -> S(0)"],
  },
  {
    op: "scatterAdd",
    title: "into each row",
    inputs: [floats([4, 2]), given("i32", [4, 2], [0, 2, 1, 1, 2, 0, 2, 2])],
    attrs: { batchDims: 1, size: 4 },
    expected: (updates, where) => [
      build([4, 4], (a, b) => total(build([2], (i) => (at(where, [a, i]) === b ? at(updates, [a, i]) : 0)))),
    ],
    gradient: true,
    shardings: ["S(0), S(0) -> S(0)", "S(1), S(1) -> P(sum)", "P(sum), R -> P(sum)", "R, R -> S(1)"],
  },
  {
    op: "scatterAdd",
    title: "integers wrap",
    inputs: [given("i32", [2], [2147483647, 1]), index(0, 0)],
    attrs: { batchDims: 0, size: 1 },
    expected: () => [[-2147483648]],
    gradient: false,
  },
  {
    op: "scatterAdd",
    title: "no updates",
    inputs: [given("f32", [0, 2], []), given("i32", [0], [])],
    attrs: { batchDims: 0, size: 2 },
    expected: () => [[0, 0, 0, 0]],
    gradient: true,
  },
  {
    op: "scatterAdd",
    title: "index past the end",
    inputs: [given("f32", [1], [1]), index(3)],
    attrs: { batchDims: 0, size: 3 },
    fails: /scatterAdd.*3.*\[0, 3\)/,
    gradient: false,
  },
];

const clamp = (start: number, size: number, length: number): number => Math.max(0, Math.min(start, length - size));

const dynamicSlice = (title: string, start: number, shardings?: readonly string[]): Row => ({
  op: "dynamicSlice",
  title,
  inputs: [floats([4, 6]), scalar("i32", 0), scalar("i32", start)],
  attrs: { sizes: [4, 4] },
  expected: (x) => [build([4, 4], (a, b) => at(x, [a, clamp(start, 4, 6) + b]))],
  gradient: true,
  ...(shardings === undefined ? {} : { shardings }),
});

const updated = (x: HostTensor, update: HostTensor, start: number): number[] =>
  build([4, 6], (a, b) => {
    const place = b - clamp(start, 4, 6);
    return place >= 0 && place < 4 ? at(update, [a, place]) : at(x, [a, b]);
  });

const dynamicUpdate = (title: string, start: number, shardings?: readonly string[]): Row => ({
  op: "dynamicUpdateSlice",
  title,
  inputs: [floats([4, 6]), floats([4, 4]), scalar("i32", 0), scalar("i32", start)],
  expected: (x, update) => [updated(x, update, start)],
  gradient: true,
  ...(shardings === undefined ? {} : { shardings }),
});

const dynamicRows: readonly Row[] = [
  dynamicSlice("in range", 1, ["S(0), R, R -> S(0)", "P(sum), R, R -> P(sum)"]),
  dynamicSlice("clamped below", -3),
  dynamicSlice("clamped above", 5),
  dynamicUpdate("in range", 2, ["S(0), S(0), R, R -> S(0)", "P(sum), P(sum), R, R -> P(sum)"]),
  dynamicUpdate("clamped below", -1),
  dynamicUpdate("clamped above", 9),
];

// Known-answer tests of Random123 (kat_vectors): counter and key all 0.
const zeroWords = [0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8];
const key = given("u32", [2], [0, 0]);

const randomRows: readonly Row[] = [
  {
    op: "randomBits",
    title: "first block of the zero key",
    inputs: [key, index(0)],
    attrs: { shape: [4], total: [4], stream: 0 },
    expected: () => [zeroWords],
    gradient: false,
  },
  {
    op: "randomBits",
    title: "a block that starts later",
    inputs: [key, index(0, 2)],
    fixed: true,
    attrs: { shape: [1, 2], total: [1, 4], stream: 0 },
    expected: () => [zeroWords.slice(2)],
    gradient: false,
  },
  {
    op: "randomBits",
    title: "sharded",
    inputs: [given("u32", [2], [1, 2]), index(0, 0)],
    attrs: { shape: [8, 4], total: [8, 4], stream: 3 },
    gradient: false,
    shardings: ["R, R -> S(0)", "R, R -> S(1)"],
  },
  {
    op: "randomBits",
    title: "part of a whole",
    inputs: [given("u32", [2], [7, 9])],
    build: (k: Node) => {
      const part = call(
        "randomBits",
        [k, call("constant", [], { dtype: "i32", value: 3 })].map((node, i) =>
          i === 0 ? node : call("broadcast", [node], { shape: [1], dims: [] }),
        ),
        { shape: [5], total: [16], stream: 1 },
      );
      const whole = call("slice", [randomBits(k, [16], { stream: 1 })], { start: [3], limit: [8], stride: [1] });
      return [call("eq", [part, whole])];
    },
    expected: () => [[1, 1, 1, 1, 1]],
    gradient: false,
  },
  {
    op: "randomBits",
    title: "folded keys differ",
    inputs: [key],
    build: (k: Node) => [call("ne", [foldIn(k, 0), foldIn(k, 1)])],
    expected: () => [[1, 1]],
    gradient: false,
  },
];

const logSumExp = (values: readonly number[]): number => {
  const largest = Math.max(...values);
  return largest + Math.log(total(values.map((value) => Math.exp(value - largest))));
};
const logits = (x: HostTensor, a: number): number[] => build([x.shape[1] as number], (b) => at(x, [a, b]));
const { NaN: nan } = Number;

const crossEntropyRows: readonly Row[] = [
  {
    op: "softmaxCrossEntropy",
    title: "rows",
    inputs: [floats([4, 5], -3, 3), index(4, 0, 2, 2)],
    expected: (x, labels) => [build([4], (a) => logSumExp(logits(x, a)) - at(x, [a, at(labels, [a])]))],
    gradient: true,
    shardings: ["S(0), S(0) -> S(0)"],
  },
  {
    op: "softmaxCrossEntropy",
    title: "huge logits",
    inputs: [given("f32", [2, 2], [1000, 0, -1000, -1000]), index(1, 0)],
    expected: () => [[1000, Math.log(2)]],
    gradient: false,
  },
  {
    op: "softmaxCrossEntropy",
    title: "NaN and infinities",
    inputs: [given("f32", [2, 2], [nan, 0, -Infinity, 0]), index(1, 1)],
    expected: () => [[nan, 0]],
    gradient: false,
  },
  {
    op: "softmaxCrossEntropy",
    title: "label out of range",
    inputs: [given("f32", [1, 2], [0, 0]), index(2)],
    fails: /2.*\[0, 2\)/,
    gradient: false,
  },
  {
    op: "softmaxCrossEntropy",
    title: "two dims of rows",
    inputs: [floats([2, 4, 3]), ints([2, 4], 0, 3)],
    gradient: true,
    shardings: ["S(0), S(0) -> S(0)", "S(1), S(1) -> S(1)"],
  },
  {
    op: "softmaxCrossEntropyGrad",
    title: "rows",
    inputs: [floats([4, 5], -3, 3), index(4, 0, 2, 2), floats([4])],
    expected: (x, labels, dy) => [
      build(
        [4, 5],
        (a, b) => (Math.exp(at(x, [a, b]) - logSumExp(logits(x, a))) - Number(at(labels, [a]) === b)) * at(dy, [a]),
      ),
    ],
    gradient: true,
    shardings: ["S(0), S(0), S(0) -> S(0)", "R, R, P(sum) -> P(sum)"],
  },
];

type Fold = (held: number, update: number) => number;
const folds: { readonly [op: string]: Fold } = {
  sum: (a, b) => a + b,
  prod: (a, b) => a * b,
  max: (a, b) => Math.max(a, b),
  min: (a, b) => Math.min(a, b),
  replace: (_a, b) => b,
};

/** Rows of updates into a copy of x, one after another. */
const combined = (x: HostTensor, where: HostTensor, updates: HostTensor, fold: Fold): number[] =>
  build(x.shape, (a, b) =>
    [...where.data].reduce<number>(
      (held, row, position) => (row === a ? fold(held, at(updates, [position, b])) : held),
      at(x, [a, b]),
    ),
  );

/** Of each factor of a row, x's own first, the product of the others. */
function others(x: HostTensor, where: HostTensor, updates: HostTensor): number[][] {
  const factors = [...x.data].map((own, row) => [own, ...[...updates.data].filter((_u, i) => where.data[i] === row)]);
  const without = (list: readonly number[], at: number): number =>
    list.reduce((product, factor, place) => (place === at ? product : product * factor), 1);
  const seen = new Map<number, number>();
  const ofUpdates = [...where.data].map((row) => {
    seen.set(row, (seen.get(row) ?? 0) + 1);
    return without(factors[row] as number[], seen.get(row) as number);
  });
  return [factors.map((list) => without(list, 0)), ofUpdates];
}

/** Rows with no factor of 0, with one among x, with one among the updates, with two and with three. */
const withZeros = [
  given("f32", [5], [2, 0, 3, 0, 0]),
  index(0, 0, 1, 2, 2, 3, 3, 4, 4, 4),
  given("f32", [10], [3, -1, 5, 0, 4, 0, 2, 0, 0, 7]),
];

const scatteredOthers =
  (batchDims: number) =>
  (...inputs: Node[]): readonly Node[] =>
    resultsOf(call("scatterOthers", inputs, { batchDims }));

const othersRows: readonly Row[] = [
  {
    op: "scatterOthers",
    title: "of factors that are not 0",
    inputs: [floats([4], -2, 2, [0]), index(3, 0, 3, 1), floats([4], -2, 2, [0])],
    build: scatteredOthers(0),
    expected: others,
    gradient: true,
  },
  {
    op: "scatterOthers",
    title: "of rows, in batches",
    inputs: [floats([2, 3, 4], -2, 2, [0]), given("i32", [2, 2], [0, 0, 2, 1]), floats([2, 2, 4], -2, 2, [0])],
    build: scatteredOthers(1),
    gradient: true,
    shardings: ["S(0), S(0), S(0) -> S(0), S(0)", "S(2), R, S(2) -> S(2), S(2)"],
  },
  {
    op: "scatterOthers",
    title: "where factors are 0",
    inputs: withZeros,
    build: scatteredOthers(0),
    expected: others,
    gradient: true,
    fixed: true,
  },
  {
    op: "scatter",
    title: "prod with factors of 0: derivatives of both orders",
    inputs: withZeros,
    attrs: { op: "prod", batchDims: 0 },
    expected: () => [[-6, 0, 0, 0, 0]],
    gradient: true,
    fixed: true,
  },
];

const scatterInto: readonly Row[] = [
  ...Object.entries(folds).map(
    ([op, fold]): Row => ({
      op: "scatter",
      title: `${op} of rows`,
      inputs: [floats([5, 4], -2, 2, [0]), index(3, 0, 3, 1), floats([4, 4], -2, 2, [0])],
      attrs: { op, batchDims: 0 },
      expected: (x, where, updates) => [combined(x, where, updates, fold)],
      gradient: op === "prod" ? { step: 1e-5, tolerance: 1e-6 } : true,
      shardings: [
        "S(1), R, S(1) -> S(1)",
        ...(op === "sum" || op === "replace" ? ["P(sum), R, P(sum) -> P(sum)"] : []),
      ],
    }),
  ),
  {
    op: "scatter",
    title: "one of each row, in batches",
    inputs: [floats([4, 3]), index(2, 0, 1, 1), floats([4])],
    attrs: { op: "sum", batchDims: 1 },
    expected: (x, where, updates) => [
      build([4, 3], (a, b) => at(x, [a, b]) + (at(where, [a]) === b ? at(updates, [a]) : 0)),
    ],
    gradient: true,
  },
  {
    op: "scatter",
    title: "integer prods wrap",
    inputs: [given("i32", [2], [65536, 5]), index(0, 0), given("i32", [2], [65537, 3])],
    attrs: { op: "prod", batchDims: 0 },
    expected: () => [[196608, 5]],
    gradient: false,
  },
  ...(["max", "min"] as const).map(
    (op): Row => ({
      op: "scatter",
      title: `${op} keeps NaN`,
      inputs: [given("f32", [3], [Number.NaN, 1, 2]), index(0, 1, 1), given("f32", [3], [1, Number.NaN, 3])],
      attrs: { op, batchDims: 0 },
      expected: () => [[Number.NaN, Number.NaN, 2]],
      gradient: false,
    }),
  ),
  {
    op: "scatter",
    title: "index outside",
    inputs: [given("f32", [2], [1, 2]), index(0, -1), given("f32", [2], [1, 2])],
    attrs: { op: "max", batchDims: 0 },
    fails: /scatter.*-1.*position 1.*\[0, 2\)/,
    gradient: false,
  },
];

export const lookupTable: readonly Row[] = [
  ...gatherRows,
  ...scatterRows,
  ...scatterInto,
  ...othersRows,
  ...dynamicRows,
  ...randomRows,
  ...crossEntropyRows,
];
