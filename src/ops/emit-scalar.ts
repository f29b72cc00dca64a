/**
 * @module Functions that build graphs, of what goes element by element: numbers, how scalar functions take their operands,
 * and casts. Part of `emit.ts`.
 */

import { type DType, isFloat, isLong, isValueOf, roundTo, wrapLong } from "../ir/dtype.ts";
import type { Graph, Node } from "../ir/node.ts";
import { opNamed } from "../ir/op.ts";
import { promote } from "../ir/promote.ts";
import { broadcastShapes, formatType, range, type Shape, sameShape } from "../ir/shape.ts";
import { apply } from "../ir/trace.ts";
import { HeddleError } from "../util/errors.ts";
import type { Plain } from "../util/text.ts";

/** A node, or a number that takes the dtype of the other operand. */
export type Operand = Node | number | bigint;

/** Applies the op of this name. */
export function call(
  name: string,
  inputs: readonly Node[],
  attrs: { readonly [key: string]: Plain | Graph } = {},
): Node {
  return apply(opNamed(name), inputs, attrs);
}

/** A scalar known when the graph is made, rounded to `dtype`: integers wrap. */
export function constant(dtype: DType, value: number | bigint): Node {
  if (!isLong(dtype) || typeof value === "number" || Number.isSafeInteger(Number(value)))
    return call("constant", [], { dtype, value: roundTo(dtype, Number(value)) });
  // Attributes are doubles: two halves of 32 bits make the 64-bit value.
  const [high, low] = [wrapLong(dtype, value) >> 32n, value & 0xffff_ffffn];
  const scaled = call("mul", [constant(dtype, high), constant(dtype, 2 ** 32)]);
  return call("add", [scaled, constant(dtype, low)]);
}

/** A tensor of one repeated value. */
export const full = (dtype: DType, shape: Shape, value: number | bigint): Node =>
  broadcastTo(constant(dtype, value), shape);

/** Zeros of the shape and dtype of `x`. */
export const zerosLike = (x: Node): Node => full(x.dtype, x.shape, 0);

/** Lifts numbers to the dtype of the other operand and broadcasts all to one shape. */
export function together(name: string, operands: readonly Operand[]): Node[] {
  const tensors = operands.filter((operand): operand is Node => typeof operand === "object");
  const [first] = tensors;
  if (first === undefined) throw new HeddleError("op", `${name}: at least one operand must be a tensor`);
  let dtype = first.dtype;
  for (const node of tensors) {
    const promoted = promote(dtype, node.dtype);
    if (promoted === undefined) {
      throw new HeddleError("dtype", `${name}: no dtype holds both: ${tensors.map(formatType).join(", ")}`, {
        hint: "cast one of them with cast(x, dtype)",
      });
    }
    dtype = promoted;
  }
  const nodes = operands.map((operand) => {
    if (typeof operand !== "object") return literal(name, dtype, operand);
    return operand.dtype === dtype ? operand : cast(operand, dtype);
  });
  return sameShapes(name, nodes);
}

/** @throws HeddleError `dtype` for a number that is not a value of `dtype`, an integer dtype or bool. */
export function checkLiteral(name: string, dtype: DType, value: number | bigint): void {
  if (isFloat(dtype) || isValueOf(dtype, value)) return;
  throw new HeddleError("dtype", `${name}: ${value} is not a value of ${dtype}`, {
    hint: `cast the tensor first: a number takes the dtype of the tensor beside it (${dtype}) and never changes it, as 1 and 1.0 are one number in JavaScript`,
  });
}

/** A number as a scalar of `dtype`, which must have that value. */
export function literal(name: string, dtype: DType, value: number | bigint): Node {
  checkLiteral(name, dtype, value);
  return constant(dtype, value);
}

function sameShapes(name: string, nodes: readonly Node[]): Node[] {
  let shape: Shape = [];
  for (const node of nodes) {
    const joined = broadcastShapes(shape, node.shape);
    if (joined === undefined)
      throw new HeddleError("shape", `${name}: shapes do not broadcast: ${nodes.map(formatType).join(", ")}`);
    shape = joined;
  }
  return nodes.map((node) => broadcastTo(node, shape));
}

/**
 * Converts to another dtype; gives `x` itself if it has that dtype. Floats to integers truncate and saturate, NaN gives 0;
 * integers to integers wrap; to bool is `!= 0`.
 */
export const cast = (x: Node, dtype: DType): Node => (x.dtype === dtype ? x : call("cast", [x], { dtype }));

/** The same bits as another dtype of the same width. */
export const bitcast = (x: Node, dtype: DType): Node => call("bitcast", [x], { dtype });

/** Broadcasts by NumPy's rule to `shape`. */
export function broadcastTo(x: Node, shape: Shape): Node {
  if (sameShape(x.shape, shape)) return x;
  const lead = shape.length - x.shape.length;
  return broadcastInDim(
    x,
    shape,
    range(x.shape.length).map((dim) => dim + lead),
  );
}

/** Input dim `i` becomes output dim `dims[i]`; sizes of 1 are repeated. */
export const broadcastInDim = (x: Node, shape: Shape, dims: readonly number[]): Node =>
  call("broadcast", [x], { shape, dims });

/** `condition ? onTrue : onFalse`, elementwise. */
export function select(condition: Node, onTrue: Operand, onFalse: Operand): Node {
  const [left, right] = together("select", [onTrue, onFalse]) as [Node, Node];
  return call("select", sameShapes("select", [condition, left, right]));
}
