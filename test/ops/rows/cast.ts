/** @module Rows of cast: between all kinds of dtypes, with saturation, truncation and wrapping. */
import type { DType } from "../../../src/ir/dtype.ts";
import type { HostTensor, Node } from "../../../src/ir/node.ts";
import { call } from "../../../src/ops/index.ts";
import type { Row } from "../../support/row.ts";
import { floats, given } from "../../support/tensors.ts";

const [nan, inf] = [Number.NaN, Infinity];
const [lowest, highest] = [-2147483648, 2147483647];

/** What a value becomes, by source and target dtype. */
const castCases: readonly (readonly [from: DType, to: DType, pairs: readonly (readonly [number, number])[]])[] = [
  [
    "f32",
    "i32",
    [
      [1.9, 1],
      [-1.9, -1],
      [nan, 0],
      [inf, highest],
      [-inf, lowest],
      [3e9, highest],
      [-0.5, 0],
    ],
  ],
  [
    "f32",
    "u32",
    [
      [1.9, 1],
      [-1.9, 0],
      [nan, 0],
      [inf, 4294967295],
      [5e9, 4294967295],
      [3e9, 3e9],
    ],
  ],
  [
    "f32",
    "u8",
    [
      [255.9, 255],
      [300, 255],
      [-1, 0],
      [nan, 0],
    ],
  ],
  [
    "f32",
    "bool",
    [
      [0, 0],
      [-0, 0],
      [0.1, 1],
      [nan, 1],
      [-inf, 1],
    ],
  ],
  [
    "f64",
    "f32",
    [
      [0.1, Math.fround(0.1)],
      [1e300, inf],
      [1e-300, 0],
      [-1e-300, -0],
      [nan, nan],
      [16777217, 16777216],
    ],
  ],
  [
    "f64",
    "i32",
    [
      [2147483647.5, highest],
      [-2147483649, lowest],
    ],
  ],
  [
    "f32",
    "f64",
    [
      [-0, -0],
      [inf, inf],
      [1.5, 1.5],
    ],
  ],
  [
    "i32",
    "f32",
    [
      [16777217, 16777216],
      [-5, -5],
    ],
  ],
  [
    "i32",
    "u8",
    [
      [256, 0],
      [-1, 255],
      [300, 44],
    ],
  ],
  [
    "i32",
    "u32",
    [
      [-1, 4294967295],
      [7, 7],
    ],
  ],
  [
    "u32",
    "i32",
    [
      [4294967295, -1],
      [7, 7],
    ],
  ],
  ["u32", "f32", [[4294967295, 4294967296]]],
  ["u8", "i32", [[255, 255]]],
  [
    "bool",
    "f32",
    [
      [1, 1],
      [0, 0],
    ],
  ],
  [
    "bool",
    "u8",
    [
      [1, 1],
      [0, 0],
    ],
  ],
  [
    "bool",
    "i32",
    [
      [1, 1],
      [0, 0],
    ],
  ],
  [
    "i32",
    "bool",
    [
      [256, 1],
      [0, 0],
      [-1, 1],
    ],
  ],
];

const castRows = castCases.map(([from, to, pairs]): Row => {
  const column = (side: 0 | 1): number[] => pairs.map((pair) => pair[side]);
  return {
    op: "cast",
    title: `${from} to ${to}`,
    inputs: [given(from, [pairs.length], column(0))],
    attrs: { dtype: to },
    expected: () => [column(1)],
    gradient: false,
    tolerance: 0,
  };
});

const castGradients = (["f32", "f64"] as const).map(
  (dtype): Row => ({
    op: "cast",
    title: `gradient through ${dtype}`,
    inputs: [{ ...floats([4, 4]), dtype: "f64" }],
    attrs: { dtype },
    build: (x: Node) => [call("cast", [call("cast", [x], { dtype })], { dtype: "f64" })],
    expected: (x: HostTensor) => [[...x.data]],
    tolerance: 1e-6,
    gradient: { step: 0.1, tolerance: 1e-5 },
  }),
);

export const castTable: readonly Row[] = [
  ...castRows,
  ...castGradients,
  {
    op: "cast",
    title: "sharded",
    inputs: [floats([4, 8])],
    attrs: { dtype: "i32" },
    expected: (x) => [Array.from(x.data, (value) => (value < 0 ? -Math.floor(-value) : Math.floor(value)) || 0)],
    gradient: false,
    shardings: ["S(0) -> S(0)", "S(1) -> S(1)"],
  },
];
