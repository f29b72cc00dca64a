/** @module Rows of the op table: loops and branches. */

import type { DType } from "../../../src/ir/dtype.ts";
import type { InputSpec } from "../../../src/ir/graph.ts";
import { traceGraph } from "../../../src/ir/graph.ts";
import type { Graph, HostTensor, Node } from "../../../src/ir/node.ts";
import * as ops from "../../../src/ops/index.ts";
import type { Row } from "../../support/row.ts";
import { given } from "../../support/tensors.ts";

const spec = (name: string, dtype: DType, ...shape: number[]): InputSpec => ({ name, type: { dtype, shape } });
const count = spec("i", "i32");
const like = (name: string, node: Node, drop = 0): InputSpec => spec(name, node.dtype, ...node.shape.slice(drop));

/** h' = tanh(x w + h u), y = h'. */
function recurrent([h, xs, w, u]: Node[], reverse = false): Node[] {
  const [first, inputs, weight, recurrence] = [h, xs, w, u] as [Node, Node, Node, Node];
  const specs = [count, like("h", first), like("x", inputs, 1), like("w", weight), like("u", recurrence)];
  const body = traceGraph("cell", specs, (_i, state, x, a, b) => {
    const next = ops.tanh(ops.add(ops.matmul(x as Node, a as Node), ops.matmul(state as Node, b as Node)));
    return [next, next];
  });
  const attrs = { body, length: inputs.shape[0] as number, carries: 1, slices: 1, reverse };
  return ops.scan([first, inputs, weight, recurrence], attrs);
}

/** The same in plain loops: last state and all states. */
function recurrentValues(inputs: HostTensor[], reverse = false): number[][] {
  const [h, xs, w, u] = inputs as [HostTensor, HostTensor, HostTensor, HostTensor];
  const [length, rows, inner] = xs.shape as [number, number, number];
  const width = h.shape[1] as number;
  let state = [...h.data];
  const stack = new Array<number>(length * rows * width);
  for (let step = 0; step < length; step++) {
    const at = reverse ? length - 1 - step : step;
    const next = state.map((_old, place) => {
      const [row, column] = [Math.floor(place / width), place % width];
      let total = 0;
      for (let k = 0; k < inner; k++)
        total += (xs.data[(at * rows + row) * inner + k] as number) * (w.data[k * width + column] as number);
      for (let k = 0; k < width; k++)
        total += (state[row * width + k] as number) * (u.data[k * width + column] as number);
      return Math.tanh(total);
    });
    next.forEach((value, place) => {
      stack[at * rows * width + place] = value;
    });
    state = next;
  }
  return [state, stack];
}

const unit = (seed: number): { low: number; high: number; seed: number } => ({ low: -1, high: 1, seed });
const cell = (length: number): Row["inputs"] => [
  { dtype: "f32", shape: [4, 3], values: unit(1) },
  { dtype: "f32", shape: [length, 4, 2], values: unit(2) },
  { dtype: "f32", shape: [2, 3], values: unit(3) },
  { dtype: "f32", shape: [3, 3], values: unit(4) },
];

/** Two carries that trade places, a sum weighed by the count. */
function fibonacci([a, b]: Node[]): Node[] {
  const specs = [count, like("a", a as Node), like("b", b as Node), spec("sum", "i32")];
  const body = traceGraph("fibonacci", specs, (i, x, y, sum) => [
    y as Node,
    ops.add(x as Node, y as Node),
    ops.add(sum as Node, i as Node),
    x as Node,
  ]);
  const attrs = { body, length: 6, carries: 3, slices: 0, reverse: false };
  return ops.scan([a as Node, b as Node, ops.constant("i32", 0)], attrs);
}

/** The outer loop runs over rows, the inner one over their elements. */
function nested([xs, scale]: Node[]): Node[] {
  const rows = xs as Node;
  const inner = traceGraph(
    "inner",
    [count, spec("s", rows.dtype), spec("x", rows.dtype), spec("k", rows.dtype)],
    (_i, s, x, k) => {
      const next = ops.add(ops.mul(s as Node, k as Node), ops.sin(x as Node));
      return [next, ops.mul(next, next)];
    },
  );
  const outer = traceGraph(
    "outer",
    [count, spec("s", rows.dtype), like("row", rows, 1), like("k", scale as Node)],
    (_i, s, row, k) => {
      const results = ops.scan([s as Node, row as Node, k as Node], {
        body: inner,
        length: rows.shape[1] as number,
        carries: 1,
        slices: 1,
        reverse: false,
      });
      return [results[0] as Node, results[1] as Node];
    },
  );
  const attrs = { body: outer, length: rows.shape[0] as number, carries: 1, slices: 1, reverse: true };
  return ops.scan([ops.constant(rows.dtype, 0.25), rows, scale as Node], attrs);
}

function nestedValues(xs: HostTensor, scale: HostTensor): number[][] {
  const [rows, columns] = xs.shape as [number, number];
  const stack = new Array<number>(rows * columns);
  let state = 0.25;
  for (let row = rows - 1; row >= 0; row--) {
    for (let column = 0; column < columns; column++) {
      state = state * (scale.data[0] as number) + Math.sin(xs.data[row * columns + column] as number);
      stack[row * columns + column] = state * state;
    }
  }
  return [[state], stack];
}

export const scanRows: readonly Row[] = [
  {
    op: "scan",
    title: "a recurrent cell",
    inputs: cell(5),
    build: (...inputs) => recurrent(inputs),
    expected: (...inputs) => recurrentValues(inputs),
    gradient: true,
  },
  {
    op: "scan",
    title: "a recurrent cell from the end",
    inputs: cell(3),
    build: (...inputs) => recurrent(inputs, true),
    expected: (...inputs) => recurrentValues(inputs, true),
    gradient: true,
  },
  {
    op: "scan",
    title: "no iterations",
    inputs: cell(0),
    build: (...inputs) => recurrent(inputs),
    expected: (h) => [[...(h as HostTensor).data], []],
    gradient: true,
  },
  {
    op: "scan",
    title: "carries that trade places, and the count",
    inputs: [
      { dtype: "i32", shape: [2], values: [0, 1] },
      { dtype: "i32", shape: [2], values: [1, 2] },
    ],
    build: (...inputs) => fibonacci(inputs),
    expected: () => [[8, 21], [13, 34], [15], [0, 1, 1, 2, 1, 3, 2, 5, 3, 8, 5, 13]],
    gradient: false,
  },
  {
    op: "scan",
    title: "a loop in a loop",
    inputs: [
      { dtype: "f32", shape: [3, 4], values: unit(5) },
      { dtype: "f32", shape: [], values: { low: 0.4, high: 0.6, seed: 6 } },
    ],
    build: (...inputs) => nested(inputs),
    expected: (xs, scale) => nestedValues(xs as HostTensor, scale as HostTensor),
    gradient: true,
  },
];

/** Doubles until the sum passes a limit; counts the iterations. */
function doubling([x, limit]: Node[]): Node[] {
  const [start, most] = [x as Node, limit as Node];
  const specs = [count, like("x", start), spec("n", "i32"), like("limit", most)];
  const condition = traceGraph("below", specs, (_i, value, _n, top) => [ops.lt(ops.sum(value as Node), top as Node)]);
  const body = traceGraph("double", specs, (i, value) => [ops.mul(value as Node, 2), ops.add(i as Node, 1)]);
  return ops.whileLoop([start, ops.constant("i32", 0), most], { condition, body, carries: 2 });
}

export const whileRows: readonly Row[] = [
  {
    op: "while",
    title: "counting from a constant that is a result too",
    inputs: [{ dtype: "i32", shape: [], values: [3] }],
    build: (...inputs) => counting(inputs),
    expected: () => [[3], [0]],
    gradient: false,
  },
  {
    op: "while",
    title: "doubling up to a limit",
    inputs: [
      { dtype: "f32", shape: [2], values: [1, 0.5] },
      { dtype: "f32", shape: [], values: [20] },
    ],
    build: (...inputs) => doubling(inputs),
    expected: () => [[16, 8], [4]],
    gradient: false,
  },
  {
    op: "while",
    title: "that never runs",
    inputs: [
      { dtype: "f32", shape: [2], values: [1, 0.5] },
      { dtype: "f32", shape: [], values: [1] },
    ],
    build: (...inputs) => doubling(inputs),
    expected: () => [[1, 0.5], [0]],
    gradient: false,
  },
];

/** Newton's iteration for the square root of the sum of squares, until it moves little: as often as the values ask. */
function root([x, start]: Node[]): Node[] {
  const [values, guess] = [x as Node, start as Node];
  const specs = [count, like("r", guess), like("x", values)];
  const squares = (node: Node): Node => ops.sum(ops.mul(node, node));
  // A square of 16-bit floats need not come to 1e-4 of the sum: here four of their steps below 16.
  const near = guess.dtype === "bf16" ? 2 ** -2 : guess.dtype === "f16" ? 2 ** -5 : 1e-4;
  const condition = traceGraph("far", specs, (_i, r, v) => {
    const off = ops.sub(ops.mul(r as Node, r as Node), squares(v as Node));
    return [ops.gt(ops.abs(off), near)];
  });
  const body = traceGraph("newton", specs, (_i, r, v) => {
    const old = r as Node;
    return [ops.mul(ops.add(old, ops.div(squares(v as Node), old)), 0.5)];
  });
  return ops.whileLoop([guess, values], { condition, body, carries: 1, bound: 12 });
}

/** The same in a plain loop, near the root of the sum. */
function rootValue(x: ArrayLike<number>): number {
  const total = Array.from(x).reduce((sum, value) => sum + value * value, 0);
  let guess = 1;
  while (Math.abs(guess * guess - total) > 1e-4) guess = (guess + total / guess) / 2;
  return guess;
}

/** Multiplies as long as the count is small: `times` iterations, of at most `bound`. */
function powers([x, factor]: Node[], times: number, bound: number): Node[] {
  const [start, by] = [x as Node, factor as Node];
  const specs = [count, like("x", start), spec("n", "i32"), like("by", by)];
  const condition = traceGraph("early", specs, (i) => [ops.lt(i as Node, times)]);
  const body = traceGraph("multiply", specs, (i, value, _n, other) => [
    ops.mul(value as Node, ops.add(ops.sin(ops.mul(value as Node, other as Node)), 1)),
    ops.add(i as Node, 1),
  ]);
  return ops.whileLoop([start, ops.constant("i32", 0), by], { condition, body, carries: 2, bound }).slice(0, 1);
}

function powersValues(x: HostTensor, by: HostTensor, times: number): number[][] {
  const step = (value: number, place: number): number => value * (Math.sin(value * (by.data[place] as number)) + 1);
  let values = [...x.data];
  for (let done = 0; done < times; done++) values = values.map(step);
  return [values];
}

const boundedRows: readonly Row[] = [
  {
    op: "withinBound",
    title: "the last iteration",
    inputs: [given("bool", [3], [1, 1, 1]), given("i32", [], [2])],
    attrs: { loop: "body" },
    expected: () => [[1]],
    gradient: false,
    shardings: [],
  },
  {
    op: "withinBound",
    title: "one too many",
    inputs: [given("bool", [3], [1, 1, 1]), given("i32", [], [3])],
    attrs: { loop: "halve" },
    fails: /whileLoop 'halve' ran past maxIterations 3/,
    gradient: false,
  },
  {
    op: "while",
    title: "Newton's square root within a bound",
    inputs: [
      { dtype: "f32", shape: [4], values: { low: 1, high: 2, seed: 9 } },
      { dtype: "f32", shape: [], values: [1] },
    ],
    build: (...inputs) => root(inputs),
    expected: (x) => [[rootValue((x as HostTensor).data)]],
    gradient: true,
  },
  ...(
    [
      ["none", 0, 3],
      ["some", 2, 5],
      ["all", 3, 3],
    ] as const
  ).map(
    ([title, times, bound]): Row => ({
      op: "while",
      title: `${title} of the iterations of its bound`,
      inputs: [
        { dtype: "f32", shape: [4], values: unit(10) },
        { dtype: "f32", shape: [4], values: unit(11) },
      ],
      build: (...inputs) => powers(inputs, times, bound),
      expected: (x, by) => powersValues(x as HostTensor, by as HostTensor, times),
      gradient: true,
    }),
  ),
];

/** The constant that the count starts from is a result of its own. */
function counting([most]: Node[]): Node[] {
  const specs = [count, spec("n", "i32"), spec("limit", "i32")];
  const condition = traceGraph("below", specs, (_i, n, limit) => [ops.lt(n as Node, limit as Node)]);
  const body = traceGraph("next", specs, (_i, n) => [ops.add(n as Node, 1)]);
  const zero = ops.constant("i32", 0);
  return [...ops.whileLoop([zero, most as Node], { condition, body, carries: 1 }), zero];
}

function either([test, x, y]: Node[]): Node[] {
  const specs = [like("x", x as Node), like("y", y as Node)];
  const branch = (name: string, build: (a: Node, b: Node) => Node[]): Graph =>
    traceGraph(name, specs, (a, b) => build(a as Node, b as Node));
  return ops.cond([test as Node, x as Node, y as Node], {
    onTrue: branch("sine", (a, b) => [ops.sin(ops.mul(a, b)), b]),
    onFalse: branch("sum", (a, b) => [a, ops.add(ops.mul(a, a), b)]),
  });
}

export const condRows: readonly Row[] = [1, 0].map((test) => ({
  op: "cond",
  title: test === 1 ? "the first branch" : "the second branch",
  inputs: [
    { dtype: "bool", shape: [], values: [test] },
    { dtype: "f32", shape: [4], values: unit(7) },
    { dtype: "f32", shape: [4], values: unit(8) },
  ],
  build: (...inputs) => either(inputs),
  expected: (_test, x, y) => {
    const [a, b] = [[...(x as HostTensor).data], [...(y as HostTensor).data]];
    return test === 1
      ? [a.map((value, place) => Math.sin(value * (b[place] as number))), b]
      : [a, a.map((value, place) => value * value + (b[place] as number))];
  },
  gradient: true,
}));

export const controlTable: readonly Row[] = [...scanRows, ...whileRows, ...boundedRows, ...condRows];
