/** @module Rows of normalising. */
import type { HostTensor, Node } from "../../../src/ir/node.ts";
import { moments, normalize } from "../../support/nodes.ts";
import type { Row } from "../../support/row.ts";
import { at, build, floats, given, total } from "../../support/tensors.ts";

const { NaN: nan } = Number;

/** Distances of the elements of a row from their mean, in units of the root of their mean square and epsilon. */
function normal(values: readonly number[], epsilon: number, centre = true): number[] {
  const mean = centre ? total(values) / values.length : 0;
  const square = total(values.map((value) => (value - mean) ** 2)) / values.length;
  return values.map((value) => (value - mean) / Math.sqrt(square + epsilon));
}

const row = (x: HostTensor, a: number): number[] => build([x.shape[1] as number], (b) => at(x, [a, b]));

export const normalizeTable: readonly Row[] = [
  {
    op: "normalize",
    title: "rows",
    inputs: [floats([4, 5])],
    attrs: { dims: [1], epsilon: 0.1, centre: true },
    expected: (x) => [build([4], (a) => a).flatMap((a) => normal(row(x, a), 0.1))],
    gradient: true,
  },
  {
    op: "normalize",
    title: "columns of images",
    inputs: [floats([2, 3, 2])],
    attrs: { dims: [0, 2], epsilon: 0.01, centre: true },
    expected: (x) => {
      const channel = (b: number): number[] =>
        normal(
          build([2, 2], (a, c) => at(x, [a, b, c])),
          0.01,
        );
      return [build([2, 3, 2], (a, b, c) => channel(b)[2 * a + c] as number)];
    },
    gradient: true,
  },
  {
    op: "normalize",
    title: "by the mean of squares",
    inputs: [floats([4, 5])],
    attrs: { dims: [1], epsilon: 0.1, centre: false },
    expected: (x) => [build([4], (a) => a).flatMap((a) => normal(row(x, a), 0.1, false))],
    gradient: true,
  },
  {
    op: "normalize",
    title: "far from 0, NaN, infinity, equal values",
    inputs: [given("f32", [4, 2], [1e8, 1e8 + 16, 1, nan, Number.POSITIVE_INFINITY, 1, 7, 7])],
    build: (x) => [normalize(x as Node, [1], { epsilon: 1e-12 })],
    expected: () => [[-1, 1, nan, nan, nan, nan, 0, 0]],
    gradient: false,
  },
  {
    op: "normalize",
    title: "no rows",
    inputs: [given("f32", [0, 3], [])],
    build: (x) => [normalize(x as Node, [1])],
    expected: () => [[]],
    gradient: false,
  },
  {
    op: "normalize",
    title: "mean and variance",
    inputs: [floats([4, 5], 99, 101)],
    build: (x) => {
      const { mean, variance } = moments(x as Node, [1]);
      return [mean, variance];
    },
    expected: (x) => {
      const rows = build([4], (a) => a).map((a) => row(x, a));
      const means = rows.map((values) => total(values) / values.length);
      return [means, rows.map((values, a) => total(values.map((value) => (value - (means[a] as number)) ** 2)) / 5)];
    },
    gradient: true,
  },
];
