/** @module Functions of two operands that are composed of the scalar ops. */

import { type DType, isFloat, isHalf, isInteger } from "../../ir/dtype.ts";
import type { Node } from "../../ir/node.ts";
import { formatType } from "../../ir/shape.ts";
import * as ops from "../../ops/index.ts";
import { checkBounds } from "../../tensor/arguments.ts";
import { operate, type Tensor, type TensorLike } from "../../tensor/tensor.ts";
import { HeddleError } from "../../util/errors.ts";

type Operand = ops.Operand;

type Of = (x: Node, y: Node, dtype: DType) => Node;

/** A function of two operands of one dtype and shape; 16-bit floats are computed in f32, and rounded once. */
function ofTwo(name: string, x: Operand, y: Operand, integers: boolean, body: Of): Node {
  const [left, right] = ops.together(name, [x, y]) as [Node, Node];
  const { dtype } = left;
  if (!isFloat(dtype) && !(integers && isInteger(dtype)))
    throw new HeddleError("dtype", `${name}: not defined for ${formatType(left)} and ${formatType(right)}`, {
      hint: integers ? "cast to a dtype of numbers first" : "cast to a float dtype first",
    });
  if (!isHalf(dtype)) return body(left, right, dtype);
  return ops.cast(body(ops.cast(left, "f32"), ops.cast(right, "f32"), "f32"), dtype);
}

const hypotNode = (x: Operand, y: Operand): Node =>
  ofTwo("hypot", x, y, false, (left, right) => {
    const sides = [ops.abs(left), ops.abs(right)] as const;
    const infinite = ops.or(ops.eq(sides[0], Infinity), ops.eq(sides[1], Infinity));
    const [a, b] = sides.map((side) => ops.select(infinite, 0, side)) as [Node, Node];
    // The scale does not change the result, so no derivative flows through it.
    const size = ops.stopGradient(ops.maximum(a, b));
    const zero = ops.eq(size, 0);
    const scale = ops.select(zero, 1, size);
    const squares = ops.add(ops.square(ops.div(a, scale)), ops.square(ops.div(b, scale)));
    const length = ops.mul(scale, ops.sqrt(ops.select(zero, 1, squares)));
    return ops.select(infinite, Infinity, ops.select(zero, ops.zerosLike(length), length));
  });

/**
 * sqrt(x² + y²) of floats, with broadcasting, without overflow or underflow on the way (1e30 and 1e30 in f32); Infinity if an
 * operand is infinite, even beside NaN. The gradient is 0 at the origin and where an operand is infinite (PyTorch: NaN).
 */
export const hypot = (x: TensorLike, y: TensorLike): Tensor => operate("hypot", hypotNode, [x, y]);

/** Whether the sign bit is set, also of -0 and NaN. */
const isNegative = (x: Node): Node => ops.lt(ops.bitcast(x, x.dtype === "f64" ? "i64" : "i32"), 0);

function withSign(x: Node, like: Node): Node {
  const size = ops.abs(x);
  return ops.select(isNegative(like), ops.neg(size), size);
}

const copysignNode = (x: Operand, y: Operand): Node => ofTwo("copysign", x, y, false, withSign);

/** |x| with the sign of y, also for zeros and NaN, of floats, with broadcasting. The gradient by x is ±1, and 0 at 0; the gradient by y is 0. */
export const copysign = (x: TensorLike, y: TensorLike): Tensor => operate("copysign", copysignNode, [x, y]);

/** Whether a remainder is not 0 and differs in sign from its divisor. */
const hasOtherSign = (rest: Node, by: Node): Node => ops.and(ops.ne(rest, 0), ops.ne(ops.lt(rest, 0), ops.lt(by, 0)));

const remainderNode = (x: Operand, y: Operand): Node =>
  ofTwo("remainder", x, y, true, (left, right) => {
    const rest = ops.rem(left, right);
    return ops.select(hasOtherSign(rest, right), ops.add(rest, right), rest);
  });

/**
 * Remainder of x / y with the sign of y, as Python's `%` and NumPy's `remainder`, with broadcasting; NaN for a float divided by 0. A
 * remainder of 0 has the sign of x, as in PyTorch (NumPy: of y). {@link rem} has the sign of x.
 *
 * @throws HeddleError `value` when it runs and divides an integer by 0.
 */
export const remainder = (x: TensorLike, y: TensorLike): Tensor => operate("remainder", remainderNode, [x, y]);

const floorDivideNode = (x: Operand, y: Operand): Node =>
  ofTwo("floorDivide", x, y, true, (left, right, dtype) => {
    const rest = ops.rem(left, right);
    const correction = ops.cast(hasOtherSign(rest, right), dtype);
    if (!isFloat(dtype)) return ops.sub(ops.div(left, right), correction);
    const near = ops.sub(ops.div(ops.sub(left, rest), right), correction);
    const whole = ops.floor(near);
    const rounded = ops.select(ops.gt(ops.sub(near, whole), 0.5), ops.add(whole, 1), whole);
    const plain = ops.div(left, right);
    const result = ops.select(ops.eq(near, 0), withSign(ops.zerosLike(near), plain), rounded);
    return ops.stopGradient(ops.select(ops.eq(right, 0), plain, result));
  });

/**
 * x / y rounded down, as Python's `//`, with broadcasting. Floats give floats, and the quotient itself if y is 0. {@link div} of
 * integers rounds toward 0. The gradient is 0.
 *
 * @throws HeddleError `value` when it runs and divides an integer by 0.
 */
export const floorDivide = (x: TensorLike, y: TensorLike): Tensor => operate("floorDivide", floorDivideNode, [x, y]);

/**
 * Each element of x within bounds: `minimum(maximum(x, low), high)`, StableHLO's `clamp`. NaN stays, and a bound that is NaN
 * gives NaN. Bounds are numbers, or tensors that broadcast with x; dtypes promote as in `maximum`.
 *
 * The gradient by x is 1 within the bounds and 0 outside. An element that equals a bound shares the gradient with it, half each, and
 * an element that is NaN has 1, as in `maximum` and `minimum`; PyTorch's `clamp` gives x 1 at a bound and 0 at NaN.
 *
 * @throws HeddleError `argument` if both bounds are numbers and low is above high; of tensors, `high` is the result there.
 */
export function clamp(x: Tensor, low: TensorLike, high: TensorLike): Tensor {
  checkBounds("clamp", low, high);
  return operate("clamp", ops.clamp, [x, low, high]);
}
