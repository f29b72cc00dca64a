/** @module Functions with custom derivatives: customGradient (reverse mode) and customJvp (forward mode). */

import { isFloat } from "../ir/dtype.ts";
import { parameterOp } from "../ir/leaf.ts";
import type { Node } from "../ir/node.ts";
import { formatType, sameType, type TensorType } from "../ir/shape.ts";
import { topological } from "../ir/walk.ts";
import * as ops from "../ops/index.ts";
import { HeddleError } from "../util/errors.ts";
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
import { isTensor, Tensor } from "./tensor.ts";

/** The arguments of a custom gradient. */
export interface GradientOf<Inputs, Result> {
  /** The arguments of the function. */
  readonly inputs: Inputs;
  /** The function's value for them. */
  readonly value: Result;
  /** The derivative of the loss by each tensor of the value; zeros for tensors that are not float. */
  readonly cotangent: Result;
}

/** One cotangent per argument, in the form of the argument; undefined or null is zero. */
export type Cotangents<Inputs extends readonly unknown[]> = {
  readonly [Key in keyof Inputs]?: Inputs[Key] | null | undefined;
};

/** The arguments of a custom tangent. */
export interface TangentOf<Inputs, Result> {
  readonly inputs: Inputs;
  readonly value: Result;
  /** The direction: a tree like the arguments, with zeros for tensors that are not float. */
  readonly tangents: Inputs;
}

/** A traced function and its arguments. */
interface Call {
  readonly what: string;
  readonly flat: FlatTree<Tensor>;
  readonly body: Traced;
}

const isSmooth = ({ dtype }: TensorType): boolean => isFloat(dtype);

// biome-ignore lint/suspicious/noExplicitAny: functions of any arguments; their own types are kept by the generics
function callOf(what: string, fn: (...inputs: any[]) => unknown, inputs: readonly unknown[]): Call {
  const flat = flattenTree(inputs, isTensor);
  const body = traceBody(graphName(fn, "function"), named(flat, "x", flat.leaves), (leaves) =>
    fn(...(unflattenTree(flat.shape, leaves) as unknown[])),
  );
  if (body.output.leaves.length === 0)
    throw new HeddleError("argument", `${what}: '${body.graph.name}' gives no tensor`);
  for (const value of body.captured) checkConstant(what, body, value);
  return { what, flat, body };
}

/** Refuses captured values that may be differentiated: the custom derivative does not cover them. */
function checkConstant(what: string, { graph }: Traced, value: Tensor | Node): void {
  if (isTensor(value) || !isFloat(value.dtype) || !topological([value]).some(({ op }) => op === parameterOp)) return;
  throw new HeddleError(
    "gradient",
    `${what}: '${graph.name}' uses a traced value ${formatType(value)} from outside, which its derivative does not cover`,
    { hint: "pass it as an argument, or through stopGradient if it is a constant" },
  );
}

/** A tree with `leaves` in order in place of the float leaves, and zeros in place of others. */
function filled(like: FlatTree<Tensor>, leaves: readonly Tensor[]): unknown {
  let next = 0;
  return unflattenTree(
    like.shape,
    like.leaves.map((leaf) => (isSmooth(leaf) ? (leaves[next++] as Tensor) : Tensor.ofNode(ops.zerosLike(leaf.node)))),
  );
}

/**
 * Traces the derivative on (results, changes of the float tensors of `changing`, arguments), as the op takes it.
 */
function traceRule(
  { what, flat, body }: Call,
  changing: FlatTree<Tensor>,
  rule: (parts: { inputs: unknown; value: unknown; changes: unknown }) => readonly Tensor[],
): Traced {
  const { output } = body;
  const smooth = changing.leaves.filter(isSmooth);
  const specs = [
    ...output.leaves.map((leaf, index) => ({ name: `value${index}`, type: typeOfLeaf(leaf) })),
    ...smooth.map((leaf, index) => ({ name: `change${index}`, type: typeOfLeaf(leaf) })),
    ...named(flat, "x", flat.leaves),
  ];
  return traceBody(`${what}-of-${body.graph.name}`, specs, (leaves) => {
    const from = output.leaves.length + smooth.length;
    return rule({
      inputs: unflattenTree(flat.shape, leaves.slice(from)),
      value: unflattenTree(output.shape, leaves.slice(0, output.leaves.length)),
      changes: filled(changing, leaves.slice(output.leaves.length, from)),
    });
  });
}

const typeOfLeaf = ({ dtype, shape }: Tensor): TensorType => ({ dtype, shape });

/** Applies the op to the arguments and the values that its graphs capture. */
function applyCustom(call: Call, derivative: Traced, name: string, attr: string, by: readonly number[]): unknown {
  const { graphs, captured } = withSameCaptured([call.body, derivative]);
  const results = ops.call(name, [...nodesOf(call.flat.leaves), ...capturedNodes(captured)], {
    body: graphs[0] as (typeof graphs)[number],
    [attr]: graphs[1] as (typeof graphs)[number],
    by: [...by],
  });
  return unflattenTree(call.body.output.shape, ops.resultsOf(results).map(Tensor.ofNode));
}

const smoothPlaces = (leaves: readonly Tensor[]): number[] =>
  leaves.flatMap((leaf, index) => (isSmooth(leaf) ? [index] : []));

/** Checks that a derivative has the form and types of its value or argument. */
function checkChange(what: string, change: FlatTree<Tensor>, like: FlatTree<Tensor>, of: string): void {
  if (treeKey(change.shape) !== treeKey(like.shape))
    throw new HeddleError("argument", `${what} must have the form of ${of}`, {
      hint: `got the leaves [${listed(change.paths)}] for [${listed(like.paths)}]`,
    });
  like.leaves.forEach((leaf, index) => {
    const got = change.leaves[index] as Tensor;
    if (isSmooth(leaf) && !sameType(got, leaf))
      throw new HeddleError("shape", `${what}: ${formatType(got)} for ${of} ${formatType(leaf)}`);
  });
}

/** Cotangents of the float leaves of all arguments. */
function cotangentsOf(what: string, given: unknown, inputs: readonly unknown[]): Tensor[] {
  if (!Array.isArray(given))
    throw new HeddleError(
      "argument",
      `${what}: the gradient must give an array with a cotangent per argument, got ${shown(given)}`,
    );
  if (given.length !== inputs.length) {
    throw new HeddleError(
      "argument",
      `${what}: the gradient gave ${given.length} cotangents for ${inputs.length} arguments`,
      {
        hint: "null is for an argument without one",
      },
    );
  }
  return inputs.flatMap((input, index) => {
    const like = flattenTree(input, isTensor);
    const cotangent: unknown = given[index];
    const smooth = smoothPlaces(like.leaves);
    if (cotangent === undefined || cotangent === null)
      return smooth.map((at) => Tensor.ofNode(ops.zerosLike((like.leaves[at] as Tensor).node)));
    const flat = flattenTree(cotangent, isTensor);
    checkChange(`${what}: the cotangent of argument ${index}`, flat, like, "the argument");
    return smooth.map((at) => flat.leaves[at] as Tensor);
  });
}

/**
 * The same function with a custom gradient. `gradient` gets `{ inputs, value, cotangent }` and gives an array with the cotangent of
 * each argument, in the form of the argument (undefined or null is zero). It consists of tensor operations, so gradients of
 * gradients work, and it may differ from the true derivative (a straight-through estimate, a clipped gradient).
 *
 * It composes with `grad`, `vmap`, `jit`, `remat` and loops. Forward mode (`jvp`) follows by transposition if the gradient is
 * linear in the cotangent, and is an error if it is not (such as a clipped one); {@link customJvp} gives forward mode directly.
 *
 * @throws HeddleError `gradient` if `fn` uses a traced float value from outside, whose cotangent the gradient would miss;
 *   `argument` or `shape` for a cotangent that does not fit its argument.
 * @example const roundThrough = customGradient((x) => round(x), ({ cotangent }) => [cotangent]);
 */
export function customGradient<Inputs extends readonly unknown[], Result>(
  fn: (...inputs: Inputs) => Result,
  gradient: (of: GradientOf<Inputs, Result>) => Cotangents<Inputs>,
): (...inputs: Inputs) => Result {
  const what = "customGradient";
  checkFunction(what, fn);
  checkFunction(what, gradient);
  return (...inputs) =>
    traced(what, () => {
      const call = callOf(what, fn, inputs);
      const derivative = traceRule(call, call.body.output, ({ inputs: given, value, changes }) =>
        cotangentsOf(
          what,
          gradient({ inputs: given as Inputs, value: value as Result, cotangent: changes as Result }),
          given as readonly unknown[],
        ),
      );
      return applyCustom(call, derivative, what, "gradient", smoothPlaces(call.flat.leaves)) as Result;
    });
}

/**
 * The same function with a custom tangent. `tangent` gets `{ inputs, value, tangents }` and gives a tree like the value: the change of
 * the value along the tangents, which must be linear in them. Reverse mode (`grad`, `vjp`) follows by transposition, and is an error
 * if the tangent is not linear.
 *
 * @throws HeddleError as {@link customGradient}.
 * @example customJvp((x) => sqrt(x), ({ inputs: [x], value: y, tangents: [dx] }) => dx.mul(select(x.gt(0), y.pow(-1).mul(0.5), 0)));
 */
export function customJvp<Inputs extends readonly unknown[], Result>(
  fn: (...inputs: Inputs) => Result,
  tangent: (of: TangentOf<Inputs, Result>) => Result,
): (...inputs: Inputs) => Result {
  const what = "customJvp";
  checkFunction(what, fn);
  checkFunction(what, tangent);
  return (...inputs) =>
    traced(what, () => {
      const call = callOf(what, fn, inputs);
      const { output } = call.body;
      const derivative = traceRule(call, call.flat, ({ inputs: given, value, changes }) => {
        const change = flattenTree(
          tangent({ inputs: given as Inputs, value: value as Result, tangents: changes as Inputs }),
          isTensor,
        );
        checkChange(`${what}: the tangent`, change, output, "the value");
        return smoothPlaces(output.leaves).map((index) => change.leaves[index] as Tensor);
      });
      return applyCustom(call, derivative, what, "tangent", smoothPlaces(call.flat.leaves)) as Result;
    });
}
