/**
 * @module Loops and branches over trees of tensors. Their functions are traced once; tensors that they use from outside
 * become inputs that are the same in every iteration.
 */

import type { Graph } from "../ir/node.ts";
import { formatShape, formatType, sameType, type TensorType } from "../ir/shape.ts";
import * as ops from "../ops/index.ts";
import { HeddleError } from "../util/errors.ts";
import { checkInteger, checkOptions } from "../util/options.ts";
import { shown } from "../util/show.ts";
import { listed } from "../util/text.ts";
import { type FlatTree, flattenTree, treeKey, unflattenTree } from "../util/tree.ts";
import { checkFunction } from "./arguments.ts";
import {
  capturedNodes,
  graphName,
  named,
  nodesOf,
  type Traced,
  traceBody,
  traced,
  withSameCaptured,
} from "./nested.ts";
import { remat } from "./remat.ts";
import { isTensor, Tensor } from "./tensor.ts";

export interface LoopOptions {
  /** Whether to run from the last slice to the first; default false. */
  readonly reverse?: boolean;
  /** The number of iterations, if no tensors are sliced. */
  readonly length?: number;
  /**
   * Whether the gradient computes the values of each iteration again from its carry ({@link remat}): less memory, more time. Default
   * false: values that are expensive to compute are kept in stacks, if the stacks of the loop take at most 1 GiB.
   */
  readonly remat?: boolean;
}

const index = { name: "index", type: { dtype: "i32", shape: [] } as TensorType };

/** Checks that a carry has the same form and types before and after an iteration. */
function checkCarry(what: string, before: FlatTree<Tensor>, after: FlatTree<Tensor>): void {
  if (treeKey(before.shape) !== treeKey(after.shape)) {
    throw new HeddleError(
      "argument",
      `${what}: the carry has the leaves ${list(before)} before an iteration and ${list(after)} after it`,
      {
        hint: "the function must give the carry in the form in which it takes it",
      },
    );
  }
  before.leaves.forEach((leaf, position) => {
    const next = after.leaves[position] as Tensor;
    if (sameType(leaf, next)) return;
    const path = before.paths[position] === "" ? "the carry" : `carry '${before.paths[position]}'`;
    throw new HeddleError(
      "shape",
      `${what}: ${path} is ${formatType(leaf)} before an iteration and ${formatType(next)} after it`,
      {
        hint: "a carry keeps its shape and dtype: cast or reshape it in the function, or start from another value",
      },
    );
  });
}

const list = ({ paths }: FlatTree<Tensor>): string => `[${listed(paths.map((path) => path || "(itself)"))}]`;

/** The number of slices along dim 0 of all leaves. */
function lengthOf(xs: FlatTree<Tensor>, option: number | undefined): number {
  const [first] = xs.leaves;
  const length = option ?? first?.shape[0];
  if (length === undefined) {
    throw new HeddleError("argument", "scan: the number of iterations is not known", {
      hint: "give tensors to slice along their first dim, or the option length",
    });
  }
  xs.leaves.forEach((leaf, position) => {
    if (leaf.shape[0] !== length)
      throw new HeddleError(
        "shape",
        `scan: '${xs.paths[position]}' of shape ${formatShape(leaf.shape)} has no ${length} slices along dim 0`,
      );
  });
  return length;
}

/**
 * Runs `fn(carry, x, index)` for each slice of `xs` along dim 0; `fn` gives `[next carry, y]`. Returns the last carry and all `y`,
 * stacked along dim 0. The graph has one body, however long the sequence; it is compiled, differentiated and sharded like any
 * function. Random keys that are the same in every iteration are folded with the index, so that random numbers differ.
 *
 * @param xs a tensor or a tree of tensors; undefined with the option `length`
 * @throws HeddleError `shape` with the carry whose shape or dtype changes, or with a leaf that has another number of slices; `argument`
 * for a carry of another form, and if the number of iterations is not known.
 * @example scan((total, x) => [total.add(x), total.mul(2)], tensor(0), tensor([1, 2, 3])) // [6, [0, 2, 6]]
 */
export function scan<Carry, X, Y>(
  fn: (carry: Carry, x: X, index: Tensor) => readonly [Carry, Y],
  init: Carry,
  xs: X,
  options: LoopOptions = {},
): [Carry, Y] {
  checkOptions("scan", options, ["reverse", "length", "remat"]);
  const iteration = options.remat === true ? remat(fn) : fn;
  return traced("scan", () => {
    const [start, inputs] = [flattenTree(init, isTensor), flattenTree(xs, isTensor)];
    const length = lengthOf(inputs, options.length);
    const [carries, slices] = [start.leaves.length, inputs.leaves.length];
    const sliced = inputs.leaves.map(({ dtype, shape }) => ({ dtype, shape: shape.slice(1) }));
    const specs = [index, ...named(start, "carry", start.leaves), ...named(inputs, "x", sliced)];
    let stacked: FlatTree<Tensor> | undefined;
    const body = traceBody(graphName(fn, "scan"), specs, ([count, ...leaves]) => {
      const carry = unflattenTree(start.shape, leaves.slice(0, carries)) as Carry;
      const result = iteration(carry, unflattenTree(inputs.shape, leaves.slice(carries)) as X, count as Tensor);
      if (!Array.isArray(result) || result.length !== 2)
        throw new HeddleError("argument", "scan: the function must give [carry, y]");
      const next = flattenTree(result[0], isTensor);
      checkCarry("scan", start, next);
      stacked = flattenTree(result[1], isTensor);
      return [next.leaves, stacked.leaves];
    });
    const results = ops
      .scan([...nodesOf(start.leaves), ...nodesOf(inputs.leaves), ...capturedNodes(body.captured)], {
        body: ops.foldKeys(body.graph, 1 + carries + slices),
        length,
        carries,
        slices,
        reverse: options.reverse ?? false,
      })
      .map(Tensor.ofNode);
    const ys = stacked as FlatTree<Tensor>;
    return [unflattenTree(start.shape, results.slice(0, carries)), unflattenTree(ys.shape, results.slice(carries))] as [
      Carry,
      Y,
    ];
  });
}

export interface WhileOptions {
  /** The most iterations that the loop may take, at least 1; the loop then has a gradient. Default: no bound. */
  readonly maxIterations?: number;
  /** Iterations done before the loop, which the error of a loop that runs past its bound counts too. Default 0. */
  readonly done?: number;
}

/**
 * Runs `body(carry, index)` as long as `condition(carry, index)`, a bool scalar, holds; returns the last carry.
 *
 * {@link jvp} works for any such loop. {@link grad} and {@link vjp} need to know how much to keep: with `maxIterations`, n, the
 * carries before each iteration are kept in stacks of `[n, ...]`, and the backward pass is a loop over n that computes only the
 * iterations that took place. If the condition still holds after n iterations, the run fails with `value`, which names the loop by
 * its body, whether a gradient was asked for or not.
 *
 * @throws HeddleError `shape` with the carry whose shape or dtype changes; `dtype` unless the condition gives a bool scalar; `argument`
 * unless `maxIterations` is a whole number from 1 on.
 * @example grad((x) => whileLoop((y) => y.lt(100), (y) => y.mul(2), x, { maxIterations: 50 }))(tensor(3)) // 64
 */
export function whileLoop<Carry>(
  condition: (carry: Carry, index: Tensor) => Tensor,
  body: (carry: Carry, index: Tensor) => Carry,
  init: Carry,
  options: WhileOptions = {},
): Carry {
  checkOptions("whileLoop", options, ["maxIterations", "done"]);
  const { maxIterations: bound, done = 0 } = options;
  checkInteger("whileLoop", "done", done);
  if (bound !== undefined && !(Number.isInteger(bound) && bound >= 1 && bound < 2 ** 31))
    throw new HeddleError("argument", `whileLoop: maxIterations must be a whole number from 1 on, got ${shown(bound)}`);
  checkFunction("whileLoop", condition);
  checkFunction("whileLoop", body);
  return traced("whileLoop", () => {
    const start = flattenTree(init, isTensor);
    const varying = 1 + start.leaves.length;
    const specs = [index, ...named(start, "carry", start.leaves)];
    const carryOf = (leaves: readonly Tensor[]): Carry => unflattenTree(start.shape, leaves) as Carry;
    const test = traceBody("condition", specs, ([count, ...leaves]) => {
      const holds: unknown = condition(carryOf(leaves), count as Tensor);
      if (isTensor(holds) && holds.dtype === "bool" && holds.shape.length === 0) return holds;
      const got = isTensor(holds) ? formatType(holds) : shown(holds);
      throw new HeddleError("dtype", `whileLoop: the condition must give a bool scalar, got ${got}`, {
        hint: isTensor(holds) ? "compare, and reduce by all or any" : "compare tensors: (x) => x.lt(10)",
      });
    });
    const step = traceBody(graphName(body, "body"), specs, ([count, ...leaves]) => {
      const next = body(carryOf(leaves), count as Tensor);
      checkCarry("whileLoop", start, flattenTree(next, isTensor));
      return next;
    });
    const { graphs, captured } = withSameCaptured([test, step]);
    const [tested, stepped] = graphs.map((graph) => ops.foldKeys(graph, varying)) as [Graph, Graph];
    const attrs = {
      condition: tested,
      body: stepped,
      carries: start.leaves.length,
      ...(bound === undefined ? {} : { bound }),
    };
    const results = ops.whileLoop([...nodesOf(start.leaves), ...capturedNodes(captured)], attrs, done);
    return carryOf(results.map(Tensor.ofNode));
  });
}

/**
 * `onTrue(...operands)` if `predicate`, a bool scalar, is true, else `onFalse(...operands)`; only one of them runs. Both give
 * the same form, shapes and dtypes. If both are cheap, `select` is faster.
 *
 * @throws HeddleError `argument` for another predicate or different forms; `shape` for different shapes or dtypes.
 */
export function cond<Operands extends readonly unknown[], Result>(
  predicate: Tensor,
  onTrue: (...operands: Operands) => Result,
  onFalse: (...operands: Operands) => Result,
  ...operands: Operands
): Result {
  if (!isTensor(predicate))
    throw new HeddleError("argument", `cond: the predicate is ${shown(predicate)}, not a bool scalar`);
  return traced("cond", () => {
    const flat = flattenTree(operands, isTensor);
    const specs = named(flat, "x", flat.leaves);
    const branch = (name: string, fn: (...operands: Operands) => Result): Traced =>
      traceBody(graphName(fn, name), specs, (leaves) => fn(...(unflattenTree(flat.shape, leaves) as Operands)));
    const [left, right] = [branch("onTrue", onTrue), branch("onFalse", onFalse)];
    if (treeKey(left.output.shape) !== treeKey(right.output.shape))
      throw new HeddleError(
        "argument",
        `cond: the branches give the leaves ${list(left.output)} and ${list(right.output)}`,
      );
    const { graphs, captured } = withSameCaptured([left, right]);
    const [whenTrue, whenFalse] = graphs as [Graph, Graph];
    const results = ops.cond([predicate.node, ...nodesOf(flat.leaves), ...capturedNodes(captured)], {
      onTrue: whenTrue,
      onFalse: whenFalse,
    });
    return unflattenTree(left.output.shape, results.map(Tensor.ofNode)) as Result;
  });
}
