/** @module Rows of the op table: distinct elements, which are composed of sorts, sums up to each place and scatters. */
import type { HostTensor, Node } from "../../../src/ir/node.ts";
import * as nodes from "../../support/nodes.ts";
import type { Row } from "../../support/row.ts";
import { distinct, given, ints } from "../../support/tensors.ts";

const nan = Number.NaN;

/** By a set and plain loops: values, places among all distinct elements, counts, and how many there are. */
function found({ data }: HostTensor, size: number, fill?: number): number[][] {
  const all = [...new Set(data)].sort((a, b) => (Number.isNaN(a) ? 1 : Number.isNaN(b) ? -1 : a - b));
  const is = (a: number, b: number): boolean => a === b || (Number.isNaN(a) && Number.isNaN(b));
  const places = Array.from({ length: size }, (_unused, at) => at);
  return [
    places.map((at) => all[at] ?? fill ?? all[0] ?? 0),
    [...data].map((value) => all.findIndex((one) => is(one, value))),
    places.map((at) => (at < all.length ? [...data].filter((value) => is(value, all[at] as number)).length : 0)),
    [all.length],
  ];
}

/** Values, places, counts and number. */
const unique = (x: Node, size: number, fill?: number): Node[] =>
  Object.values(nodes.unique(x, fill === undefined ? { size } : { size, fill }));

const of = (size: number, fill?: number) => ({
  build: (x: Node) => unique(x, size, fill),
  expected: (x: HostTensor) => found(x, size, fill),
  tolerance: 0,
});

export const uniqueTable: readonly Row[] = [
  {
    op: "sort",
    title: "unique: integers, with places that stay free",
    inputs: [ints([4, 3], -2, 2)],
    gradient: false,
    ...of(8),
  },
  {
    op: "sort",
    title: "unique: fewer places than elements, all alike, one",
    inputs: [given("i32", [6], [5, 3, 9, 3, 7, 5]), given("u8", [4], [2, 2, 2, 2]), given("f64", [], [4])],
    build: (many, same, one) => [...unique(many, 2), ...unique(same, 4), ...unique(one, 1)],
    expected: (many, same, one) => [...found(many, 2), ...found(same, 4), ...found(one, 1)],
    gradient: false,
    tolerance: 0,
  },
  {
    op: "sort",
    title: "unique: NaNs are one, zeros of both signs too, infinities, and what fills",
    inputs: [given("f32", [9], [nan, 0, Infinity, -0, nan, -Infinity, 2, 0, 2])],
    gradient: false,
    ...of(7, -1),
  },
  {
    op: "sort",
    title: "unique: bools, and nothing",
    inputs: [given("bool", [3], [1, 0, 1]), given("f32", [0, 2], [])],
    build: (bools, none) => [...unique(bools, 2), ...unique(none, 2, 7), ...unique(none, 0)],
    expected: () => [[0, 1], [1, 0, 1], [1, 2], [2], [7, 7], [], [0, 0], [0], [], [], [], [0]],
    gradient: false,
    tolerance: 0,
  },
  {
    op: "sort",
    title: "unique: no places",
    inputs: [given("i32", [3], [1, 2, 1])],
    gradient: false,
    ...of(0),
  },
  {
    op: "sort",
    title: "unique: gradient by the values",
    inputs: [distinct([4, 3])],
    build: (x) => unique(x, 10).slice(0, 1),
    gradient: true,
  },
];
