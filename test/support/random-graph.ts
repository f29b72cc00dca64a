/** @module Random graphs for property tests: elementwise and structural ops over a few inputs. */
import fc from "fast-check";
import { type InputSpec, traceGraph } from "../../src/ir/graph.ts";
import type { Graph, HostTensor, Node } from "../../src/ir/node.ts";
import { range } from "../../src/ir/shape.ts";
import * as ops from "./nodes.ts";
import { makeTensor } from "./tensors.ts";

/** Draws a number in [0, below). */
type Draw = (below: number) => number;

const constants = [0, -0, 1, -1, 2, 0.25, 3, Number.NaN, Infinity, -Infinity];
const shapes = [[2, 3], [3, 2, 1], [6], [1, 4], [], [2, 1, 2]] as const;

const permutation = (draw: Draw, rank: number): number[] => {
  const left = range(rank);
  return range(rank).map(() => left.splice(draw(left.length), 1)[0] as number);
};

const unary = [
  ops.neg,
  ops.abs,
  ops.sign,
  ops.floor,
  ops.relu,
  (x: Node) => ops.cast(ops.cast(x, "f64"), "f32"),
  (x: Node) => ops.cast(ops.gt(x, 0), "f32"),
];
const binary = [ops.add, ops.sub, ops.mul, ops.div, ops.maximum, ops.minimum];

/** One more value from those there are, or none where it does not fit. */
type Step = (draw: Draw, x: Node, pick: () => Node) => Node | undefined;

/** Every step is exact in f32 arithmetic's own terms, so rewrites and executors must keep its bits. */
const exactSteps: readonly Step[] = [
  (draw, x) => (unary[draw(unary.length)] as (x: Node) => Node)(x),
  (draw, x) =>
    (binary[draw(binary.length)] as (x: Node, y: number) => Node)(x, constants[draw(constants.length)] as number),
  (draw, x, pick) => {
    const other = pick();
    const fits =
      other.shape.length === x.shape.length &&
      other.shape.every((size, dim) => size === x.shape[dim] || size === 1 || x.shape[dim] === 1);
    return fits ? (binary[draw(binary.length)] as (x: Node, y: Node) => Node)(x, other) : undefined;
  },
  (draw, x) =>
    x.shape.length === 0 ? undefined : ops.call("transpose", [x], { order: permutation(draw, x.shape.length) }),
  (_draw, x) => ops.call("reshape", [x], { shape: [...x.shape].reverse() }),
  (_draw, x) => ops.call("reshape", [x], { shape: [1, ...x.shape] }),
  (draw, x) => {
    const made = draw(x.shape.length + 1);
    const dims = range(x.shape.length + 1).filter((dim) => dim !== made);
    const shape = new Array<number>(x.shape.length + 1).fill(2);
    dims.forEach((dim, index) => {
      shape[dim] = x.shape[index] as number;
    });
    return x.shape.length > 3 ? undefined : ops.broadcastInDim(x, shape, dims);
  },
  (draw, x) => (x.shape.length === 0 ? undefined : ops.reverse(x, [draw(x.shape.length)])),
  (draw, x) =>
    ops.slice(
      x,
      x.shape.map((size) => draw(Math.max(1, size))),
      x.shape,
    ),
  (draw, x) =>
    ops.pad(
      x,
      ops.constant("f32", constants[draw(constants.length)] as number),
      x.shape.map(() => draw(2)),
      x.shape.map(() => draw(2)),
      x.shape.map(() => draw(2)),
    ),
  (draw, x) =>
    x.shape.length === 0
      ? undefined
      : ops.reduce(
          "max",
          x,
          range(x.shape.length).filter(() => draw(2) === 1),
        ),
  (draw, x) => ops.select(ops.lt(x, constants[draw(constants.length)] as number), x, 1),
  (draw, x) => (x.shape.length === 0 ? undefined : ops.concat([x, x], draw(x.shape.length))),
];

const scaled = (x: Node, factor: number): Node => ops.mul(x, factor);
const smooth = [
  ops.tanh,
  ops.logistic,
  ops.sin,
  ops.erf,
  (x: Node) => ops.exp(ops.minimum(x, 1)),
  (x: Node) => ops.log1p(ops.abs(x)),
  (x: Node) => ops.rsqrt(ops.add(ops.mul(x, x), 1)),
  (x: Node) => ops.relu(x),
];
const dim = (draw: Draw, x: Node): number => draw(x.shape.length);

/** Steps that round, all continuous and none that grows much: executors may differ by as much as rounding does. */
const roundingSteps: readonly Step[] = [
  (draw, x) => (smooth[draw(smooth.length)] as (x: Node) => Node)(x),
  (_draw, x, pick) => {
    const y = pick();
    return x.shape.join() === y.shape.join() ? ops.tanh(ops.mul(x, y)) : undefined;
  },
  (_draw, x, pick) => {
    const y = pick();
    return x.shape.join() === y.shape.join() ? scaled(ops.sub(x, y), 0.5) : undefined;
  },
  (draw, x) => (x.shape.length === 0 ? undefined : ops.mean(x, dim(draw, x), { keepDims: draw(2) === 1 })),
  (draw, x) => (x.shape.length === 0 ? undefined : scaled(ops.cumsum(x, dim(draw, x)), 0.25)),
  (draw, x) => (x.shape.length === 0 ? undefined : ops.softmax(x, dim(draw, x))),
  (draw, x) => (x.shape.length === 0 ? undefined : ops.logSumExp(x, dim(draw, x))),
  (draw, x) => {
    if (x.shape.length === 0) return undefined;
    const centered = ops.sub(x, ops.broadcastTo(ops.mean(x, dim(draw, x), { keepDims: true }), x.shape));
    return ops.mul(centered, 0.5);
  },
  (_draw, x, pick) => {
    const y = pick();
    if (x.shape.length !== 2 || y.shape.length !== 2) return undefined;
    if (x.shape[1] === y.shape[0]) return ops.tanh(scaled(ops.matmul(x, y), 0.3));
    return x.shape[1] === y.shape[1] ? ops.tanh(scaled(ops.matmul(x, ops.transpose(y)), 0.3)) : undefined;
  },
  (draw, x) => {
    if (x.shape.length === 0) return undefined;
    const size = x.shape[x.shape.length - 1] as number;
    const picked = ops.rem(ops.iota("i32", [1 + draw(5)], 0), ops.constant("i32", size));
    return ops.take(x, picked, x.shape.length - 1);
  },
  (draw, x) =>
    x.shape.length === 0
      ? undefined
      : ops.reduce(draw(2) === 0 ? "max" : "min", x, [dim(draw, x)], { keepDims: draw(2) === 1 }),
];
/** Of the exact steps those that only move values. */
const moves = exactSteps.slice(3, 9);

const largest = 400;

interface RandomOptions {
  /** Default f32 with exact steps. */
  readonly rounding?: boolean;
}

/** The graph that a list of choices describes. With `rounding` in f64, of steps that executors may round otherwise. */
export function graphFrom(choices: readonly number[], { rounding = false }: RandomOptions = {}): Graph {
  const dtype = rounding ? "f64" : "f32";
  const steps = rounding ? [...roundingSteps, ...moves] : exactSteps;
  const specs: InputSpec[] = shapes.map((shape, index) => ({ name: `x${index}`, type: { dtype, shape } }));
  let next = 0;
  const draw: Draw = (below) => (below <= 0 ? 0 : (choices[next++ % choices.length] as number) % below);
  return traceGraph("random", specs, (...inputs) => {
    const values = [...inputs];
    const pick = (): Node => values[values.length - 1 - draw(Math.min(values.length, 6))] as Node;
    for (let step = 0; step < choices.length / 3; step++) {
      const x = pick();
      const made = (steps[draw(steps.length)] as Step)(draw, x, pick);
      if (
        made !== undefined &&
        made.shape.length <= 5 &&
        made.shape.reduce((a, b) => a * b, 1) <= largest &&
        !made.shape.includes(0)
      )
        values.push(made);
    }
    return values.slice(-3);
  });
}

export const choices = fc.array(fc.nat(9973), { minLength: 6, maxLength: 90 });

const special = [0, -0, 1, -1, Number.NaN, Infinity, -Infinity, 0.5, -3, 1e38, -1e-40];

/** Inputs of such a graph: plain values, and of an exact one special values too. */
export const inputsFor = (graph: Graph, seed: number): HostTensor[] =>
  graph.inputs.map(({ dtype, shape }, index) => {
    const tensor = makeTensor({ dtype, shape, values: { low: -2, high: 2, seed: seed + index } });
    if (dtype !== "f32") return tensor;
    tensor.data.forEach((value, element) => {
      if (value > 0) tensor.data[element] = special[(seed + element) % special.length] as number;
    });
    return tensor;
  });
