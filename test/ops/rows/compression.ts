/** @module Rows of the ops of compression; how they divide sums between devices is tested in test/compression. */
import "../../../src/compression/nodes.ts";
import type { Row } from "../../support/row.ts";
import { floats } from "../../support/tensors.ts";

export const compressionTable: readonly Row[] = [
  {
    op: "contributions",
    title: "equal shares of a value that all devices have",
    inputs: [floats([4, 8])],
    attrs: { parts: 4 },
    expected: (x) => [Array.from({ length: 128 }, (_unused, index) => (x.data[index % 32] as number) / 4)],
    gradient: true,
    shardings: ["S(0) -> S(1)", "S(1) -> S(2)", "P(sum) -> P(sum)"],
  },
  {
    op: "wholeOnAll",
    title: "a matrix",
    inputs: [floats([4, 8])],
    expected: (x) => [Array.from(x.data as Float32Array)],
    gradient: true,
    tolerance: 0,
    shardings: [],
  },
];
