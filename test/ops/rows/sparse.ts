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
  ...(
    [
      ["rows in order, some without entries", [0, 0, 2, 2, 4]],
      ["rows in no order", [3, 0, 3, 1, 0]],
      ["one row", [2, 2, 2, 2, 2]],
    ] as const
  ).map(
    ([title, to]): Row => ({
      op: "entriesDot",
      title,
      inputs: [floats([5]), index(0, 1, 2, 0, 2), index(...to), floats([3, 2])],
      attrs: { size: 6 },
      expected: (values, from, where, dense) => [
        build([6, 2], (i, j) =>
          total(build([5], (e) => (at(where, [e]) === i ? at(values, [e]) * at(dense, [at(from, [e]), j]) : 0))),
        ),
      ],
      gradient: true,
    }),
  ),
  {
    op: "entriesDot",
    title: "no entries",
    inputs: [floats([0]), index(), index(), floats([3, 2])],
    attrs: { size: 2 },
    expected: () => [[0, 0, 0, 0]],
    gradient: true,
  },
  {
    op: "entriesDot",
    title: "shardings",
    inputs: [floats([4]), index(0, 1, 2, 0), index(1, 1, 0, 3), floats([4, 4])],
    attrs: { size: 4 },
    expected: (values, from, where, dense) => [
      build([4, 4], (i, j) =>
        total(build([4], (e) => (at(where, [e]) === i ? at(values, [e]) * at(dense, [at(from, [e]), j]) : 0))),
      ),
    ],
    gradient: true,
    shardings: [
      "S(0), S(0), S(0), R -> P(sum)",
      "R, R, R, S(1) -> S(1)",
      "P(sum), R, R, R -> P(sum)",
      "R, R, R, P(sum) -> P(sum)",
    ],
  },
  {
    op: "entriesDot",
    title: "a row of the dense matrix that is outside",
    inputs: [floats([2]), index(0, 3), index(0, 0), floats([3, 2])],
    attrs: { size: 2 },
    // On a batch its parts find it.
    fails: /(entriesDot|gather).*3.*\[0, 3\)/,
    gradient: false,
  },
  {
    op: "entriesDot",
    title: "a row of the result that is outside",
    inputs: [floats([2]), index(0, 1), index(0, -1), floats([3, 2])],
    attrs: { size: 2 },
    fails: /(entriesDot|scatterAdd).*-1.*\[0, 2\)/,
    gradient: false,
  },
  {
    op: "sampledDot",
    title: "a place twice",
    inputs: [floats([4, 10]), floats([2, 10]), index(3, 0, 3, 1), index(1, 1, 1, 0)],
    expected: (left, right, where, there) => [
      build([4], (e) => total(build([10], (j) => at(left, [at(where, [e]), j]) * at(right, [at(there, [e]), j])))),
    ],
    gradient: true,
    shardings: [
      "R, R, S(0), S(0) -> S(0)",
      "S(1), S(1), R, R -> P(sum)",
      "P(sum), R, R, R -> P(sum)",
      "R, P(sum), R, R -> P(sum)",
    ],
  },
  {
    op: "sampledDot",
    title: "a column outside",
    inputs: [floats([3, 2]), floats([2, 2]), index(0), index(2)],
    fails: /(sampledDot|gather).*2.*\[0, 2\)/,
    gradient: false,
  },
];
