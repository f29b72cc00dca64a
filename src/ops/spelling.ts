/** @module Makers of the functions of one op over nodes, and checks of their operands. */
import { isInteger } from "../ir/dtype.ts";
import type { Node } from "../ir/node.ts";
import { formatType, type TensorType } from "../ir/shape.ts";
import { HeddleError } from "../util/errors.ts";
import { call, type Operand, together } from "./emit-scalar.ts";

/** Checks the exponent of pow. @throws HeddleError `dtype` for integers to a negative number. */
export function checkExponent(x: TensorType | number | bigint, y: unknown): void {
  if (typeof x !== "object" || !isInteger(x.dtype)) return;
  if ((typeof y !== "number" && typeof y !== "bigint") || y >= 0) return;
  throw new HeddleError("dtype", `pow: ${formatType(x)} to the ${y}: integers have no negative powers`, {
    hint: `cast to a float dtype first: pow(cast(x, "f32"), ${y})`,
  });
}

/** Checks of operands before they are brought to one dtype, by op. */
export const operandChecks: {
  readonly [op: string]: ((x: TensorType | number | bigint, y: TensorType | number | bigint) => void) | undefined;
} = { pow: checkExponent };

/** The function of an op with one operand. */
export const unary =
  (name: string) =>
  (x: Node): Node =>
    call(name, [x]);

/** The function of an op with two operands, nodes or numbers, which are brought to one dtype and shape. */
export const binary =
  (name: string) =>
  (x: Operand, y: Operand): Node => {
    operandChecks[name]?.(x, y);
    return call(name, together(name, [x, y]));
  };
