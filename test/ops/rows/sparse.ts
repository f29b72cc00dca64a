/** @module Rows of sparse matrices. */
import type { Row } from "../../support/row.ts";
import { at, build, floats, given, total } from "../../support/tensors.ts";

const index = (...values: number[]) => given("i32", [values.length], values);
const [rows, columns] = [index(0, 2, 2, 1, 2), index(3, 0, 1, 2, 0)];

export const sparseTable: readonly Row[] = [
  {
    op: "sparse",
    title: "entries of one place add up",
    inputs: [floats([5]), rows, columns],
    attrs: { shape: [3, 4] },
    expected: (values, where, there) => [
      build([3, 4], (i, j) =>
        total(build([5], (e) => (at(where, [e]) === i && at(there, [e]) === j ? at(values, [e]) : 0))),
      ),
    ],
    gradient: true,
  },
  {
    op: "sparse",
    title: "no entries",
    inputs: [floats([0]), index(), index()],
    attrs: { shape: [2, 2] },
    expected: () => [[0, 0, 0, 0]],
    gradient: true,
  },
  {
    op: "sparse",
    title: "a row outside",
    inputs: [floats([1]), index(2), index(0)],
    attrs: { shape: [2, 2] },
    fails: /scatterAdd.*4.*\[0, 4\)/,
    gradient: false,
  },
  {
    op: "sparse",
    title: "a column outside, though there is such a place",
    inputs: [floats([1]), index(0), index(2)],
    attrs: { shape: [2, 2] },
    fails: /scatterAdd.*index -1/,
    gradient: false,
  },
  {
    op: "sampled",
    title: "a place twice",
    inputs: [floats([3, 4]), rows, columns],
    expected: (x, where, there) => [build([5], (e) => at(x, [at(where, [e]), at(there, [e])]))],
    gradient: true,
  },
];
