/** @module Functions of two numbers that are composed of the scalar ops, over nodes and numbers, with broadcasting. */
import { type DType, isFloat, isHalf, isInteger } from "../ir/dtype.ts";
import type { Node } from "../ir/node.ts";
import { formatType } from "../ir/shape.ts";
import { HeddleError } from "../util/errors.ts";
import { stopGradient } from "./activation.ts";
import * as emit from "./emit.ts";
import type { Operand } from "./emit-scalar.ts";

type Of = (x: Node, y: Node, dtype: DType) => Node;

/** A function of two operands of one dtype and shape; 16-bit floats are computed in f32, and rounded once. */
function ofTwo(name: string, x: Operand, y: Operand, integers: boolean, body: Of): Node {
  const [left, right] = emit.together(name, [x, y]) as [Node, Node];
  const { dtype } = left;
  if (!isFloat(dtype) && !(integers && isInteger(dtype)))
    throw new HeddleError("dtype", `${name}: not defined for ${formatType(left)} and ${formatType(right)}`, {
      hint: integers ? "cast to a dtype of numbers first" : "cast to a float dtype first",
    });
  if (!isHalf(dtype)) return body(left, right, dtype);
  return emit.cast(body(emit.cast(left, "f32"), emit.cast(right, "f32"), "f32"), dtype);
}

/** sqrt(x² + y²), by the ratio to the larger one, which neither overflows nor vanishes. */
export const hypot = (x: Operand, y: Operand): Node =>
  ofTwo("hypot", x, y, false, (left, right) => {
    const sides = [emit.abs(left), emit.abs(right)] as const;
    const infinite = emit.or(emit.eq(sides[0], Infinity), emit.eq(sides[1], Infinity));
    const [a, b] = sides.map((side) => emit.select(infinite, 0, side)) as [Node, Node];
    // The result does not depend on what it is scaled by.
    const size = stopGradient(emit.maximum(a, b));
    const zero = emit.eq(size, 0);
    const scale = emit.select(zero, 1, size);
    const squares = emit.add(emit.square(emit.div(a, scale)), emit.square(emit.div(b, scale)));
    const length = emit.mul(scale, emit.sqrt(emit.select(zero, 1, squares)));
    return emit.select(infinite, Infinity, emit.select(zero, emit.zerosLike(length), length));
  });

/** Whether the sign bit is set: of -0 and of NaN, too. */
const isNegative = (x: Node): Node => emit.lt(emit.bitcast(x, x.dtype === "f64" ? "i64" : "i32"), 0);

function withSign(x: Node, like: Node): Node {
  const size = emit.abs(x);
  return emit.select(isNegative(like), emit.neg(size), size);
}

/** |x| with the sign of y. */
export const copysign = (x: Operand, y: Operand): Node => ofTwo("copysign", x, y, false, withSign);

/** Whether a remainder that is not 0 has another sign than what it was divided by. */
const isTurned = (rest: Node, by: Node): Node => emit.and(emit.ne(rest, 0), emit.ne(emit.lt(rest, 0), emit.lt(by, 0)));

/** Remainder with the sign of y. */
export const remainder = (x: Operand, y: Operand): Node =>
  ofTwo("remainder", x, y, true, (left, right) => {
    const rest = emit.rem(left, right);
    return emit.select(isTurned(rest, right), emit.add(rest, right), rest);
  });

/** x / y rounded down, exactly: by what is left of x, not by a rounded quotient. */
export const floorDivide = (x: Operand, y: Operand): Node =>
  ofTwo("floorDivide", x, y, true, (left, right, dtype) => {
    const rest = emit.rem(left, right);
    const turned = emit.cast(isTurned(rest, right), dtype);
    if (!isFloat(dtype)) return emit.sub(emit.div(left, right), turned);
    const near = emit.sub(emit.div(emit.sub(left, rest), right), turned);
    const whole = emit.floor(near);
    const rounded = emit.select(emit.gt(emit.sub(near, whole), 0.5), emit.add(whole, 1), whole);
    const plain = emit.div(left, right);
    const result = emit.select(emit.eq(near, 0), withSign(emit.zerosLike(near), plain), rounded);
    return stopGradient(emit.select(emit.eq(right, 0), plain, result));
  });
