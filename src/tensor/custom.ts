/** @module Functions with a derivative of the user's own: customGradient (reverse mode) and customJvp (forward mode). */

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

/** What a gradient of one's own is made from. */
export interface GradientOf<Inputs, Result> {
  /** The arguments. */
  readonly inputs: Inputs;
  /** What the function gave for them. */
  readonly value: Result;
  /** How the loss changes with each tensor of the value; zeros in the place of tensors that are not float. */
  readonly cotangent: Result;
}

/** One cotangent per argument, of its form; undefined or null: zero. */
export type Cotangents<Inputs extends readonly unknown[]> = {
  readonly [Key in keyof Inputs]?: Inputs[Key] | null | undefined;
};

/** What a tangent of one's own is made from. */
export interface TangentOf<Inputs, Result> {
  readonly inputs: Inputs;
  readonly value: Result;
  /** The direction: a tree like the arguments, zeros in the place of tensors that are not float. */
  readonly tangents: Inputs;
}

/** A function that was traced with its arguments. */
interface Call {
  readonly what: string;
  readonly given: FlatTree<Tensor>;
  readonly body: Traced;
}

const isSmooth = ({ dtype }: TensorType): boolean => isFloat(dtype);

// biome-ignore lint/suspicious/noExplicitAny: functions of any arguments; their own types are kept by the generics
function callOf(what: string, fn: (...inputs: any[]) => unknown, inputs: readonly unknown[]): Call {
  const given = flattenTree(inputs, isTensor);
  const body = traceBody(graphName(fn, "function"), named(given, "x", given.leaves), (leaves) =>
    fn(...(unflattenTree(given.shape, leaves) as unknown[])),
  );
  if (body.output.leaves.length === 0)
    throw new HeddleError("argument", `${what}: '${body.graph.name}' gives no tensor`);
  for (const value of body.captured) checkConstant(what, body, value);
  return { what, given, body };
}

/** Refuses values that depend on what may be differentiated: the derivative given does not know them. */
function checkConstant(what: string, { graph }: Traced, value: Tensor | Node): void {
  if (isTensor(value) || !isFloat(value.dtype) || !topological([value]).some(({ op }) => op === parameterOp)) return;
  throw new HeddleError(
    "gradient",
    `${what}: '${graph.name}' uses a traced value ${formatType(value)} from outside, of which its derivative knows nothing`,
    { hint: "pass it as an argument, through stopGradient where it is to be a constant" },
  );
}

/** Float leaves are `leaves` in order; the others are zeros. */
function filled(like: FlatTree<Tensor>, leaves: readonly Tensor[]): unknown {
  let next = 0;
  return unflattenTree(
    like.shape,
    like.leaves.map((leaf) => (isSmooth(leaf) ? (leaves[next++] as Tensor) : Tensor.ofNode(ops.zerosLike(leaf.node)))),
  );
}

/**
 * Traces the derivative on (results, changes of float tensors of `changing`, arguments), the form in which the op takes it.
 */
function traceRule(
  { what, given, body }: Call,
  changing: FlatTree<Tensor>,
  rule: (parts: { inputs: unknown; value: unknown; changes: unknown }) => readonly Tensor[],
): Traced {
  const { output } = body;
  const smooth = changing.leaves.filter(isSmooth);
  const specs = [
    ...output.leaves.map((leaf, place) => ({ name: `value${place}`, type: typeOfLeaf(leaf) })),
    ...smooth.map((leaf, place) => ({ name: `change${place}`, type: typeOfLeaf(leaf) })),
    ...named(given, "x", given.leaves),
  ];
  return traceBody(`${what}-of-${body.graph.name}`, specs, (leaves) => {
    const from = output.leaves.length + smooth.length;
    return rule({
      inputs: unflattenTree(given.shape, leaves.slice(from)),
      value: unflattenTree(output.shape, leaves.slice(0, output.leaves.length)),
      changes: filled(changing, leaves.slice(output.leaves.length, from)),
    });
  });
}

const typeOfLeaf = ({ dtype, shape }: Tensor): TensorType => ({ dtype, shape });

/** Applies the op to the arguments and to what its graphs use from outside. */
function applyCustom(call: Call, derivative: Traced, name: string, attr: string, by: readonly number[]): unknown {
  const { graphs, captured } = withSameCaptured([call.body, derivative]);
  const made = ops.call(name, [...nodesOf(call.given.leaves), ...capturedNodes(captured)], {
    body: graphs[0] as (typeof graphs)[number],
    [attr]: graphs[1] as (typeof graphs)[number],
    by: [...by],
  });
  return unflattenTree(call.body.output.shape, ops.resultsOf(made).map(Tensor.ofNode));
}

const smoothPlaces = (leaves: readonly Tensor[]): number[] =>
  leaves.flatMap((leaf, place) => (isSmooth(leaf) ? [place] : []));

/** Refuses a derivative whose form or types are not those of what it is the derivative of. */
function checkChange(what: string, made: FlatTree<Tensor>, like: FlatTree<Tensor>, of: string): void {
  if (treeKey(made.shape) !== treeKey(like.shape))
    throw new HeddleError("argument", `${what} must have the form of ${of}`, {
      hint: `got the leaves [${listed(made.paths)}] for [${listed(like.paths)}]`,
    });
  like.leaves.forEach((leaf, place) => {
    const own = made.leaves[place] as Tensor;
    if (isSmooth(leaf) && !sameType(own, leaf))
      throw new HeddleError("shape", `${what}: ${formatType(own)} for ${of} ${formatType(leaf)}`);
  });
}

/** Cotangents of the float leaves of all arguments. */
function cotangentsOf(what: string, made: unknown, inputs: readonly unknown[]): Tensor[] {
  if (!Array.isArray(made))
    throw new HeddleError(
      "argument",
      `${what}: the gradient must give an array with a cotangent per argument, got ${shown(made)}`,
    );
  if (made.length !== inputs.length) {
    throw new HeddleError(
      "argument",
      `${what}: the gradient gave ${made.length} cotangents for ${inputs.length} arguments`,
      {
        hint: "null is for an argument without one",
      },
    );
  }
  return inputs.flatMap((input, place) => {
    const like = flattenTree(input, isTensor);
    const own: unknown = made[place];
    const smooth = smoothPlaces(like.leaves);
    if (own === undefined || own === null)
      return smooth.map((at) => Tensor.ofNode(ops.zerosLike((like.leaves[at] as Tensor).node)));
    const flat = flattenTree(own, isTensor);
    checkChange(`${what}: the cotangent of argument ${place}`, flat, like, "the argument");
    return smooth.map((at) => flat.leaves[at] as Tensor);
  });
}

/**
 * The same function with a gradient of your own. `gradient` gets `{ inputs, value, cotangent }` and gives an array with the
 * cotangent of each argument, of the argument's form (undefined or null: zero). It is itself made of tensor operations, so that
 * gradients of gradients follow from it, and it may use what is not the true derivative (a straight-through estimate, a clipped
 * gradient).
 *
 * It composes with `grad`, `vmap`, `jit`, `remat` and loops. Forward mode (`jvp`) follows by transposition where the gradient is
 * linear in the cotangent, and is refused by name where it is not (as a clipped one); {@link customJvp} says it directly.
 *
 * @throws HeddleError `gradient` when `fn` uses a traced float value from outside, whose cotangent nobody would know;
 *   `argument` or `shape` when a cotangent does not fit its argument.
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
      const derivative = traceRule(call, call.body.output, ({ inputs: own, value, changes }) =>
        cotangentsOf(
          what,
          gradient({ inputs: own as Inputs, value: value as Result, cotangent: changes as Result }),
          own as readonly unknown[],
        ),
      );
      return applyCustom(call, derivative, what, "gradient", smoothPlaces(call.given.leaves)) as Result;
    });
}

/**
 * The same function with a tangent of your own. `tangent` gets `{ inputs, value, tangents }` and gives a tree like the value:
 * how it changes along the tangents, in which it must be linear. Reverse mode (`grad`, `vjp`) follows by transposing it, and is
 * refused by name where it is not linear.
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
      const derivative = traceRule(call, call.given, ({ inputs: own, value, changes }) => {
        const made = flattenTree(
          tangent({ inputs: own as Inputs, value: value as Result, tangents: changes as Inputs }),
          isTensor,
        );
        checkChange(`${what}: the tangent`, made, output, "the value");
        return smoothPlaces(output.leaves).map((place) => made.leaves[place] as Tensor);
      });
      return applyCustom(call, derivative, what, "tangent", smoothPlaces(call.given.leaves)) as Result;
    });
}
