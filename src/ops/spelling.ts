/** @module How the functions of one op are made, and what their operands are looked at for. */
import { isInteger } from "../ir/dtype.ts";
import type { Node } from "../ir/node.ts";
import { formatType, type TensorType } from "../ir/shape.ts";
import { HeddleError } from "../util/errors.ts";
import { call, type Operand, together } from "./emit-scalar.ts";

/** @throws HeddleError `dtype` for integers to a negative number. */
export function checkExponent(x: TensorType | number | bigint, y: unknown): void {
  if (typeof x !== "object" || !isInteger(x.dtype)) return;
  if ((typeof y !== "number" && typeof y !== "bigint") || y >= 0) return;
  throw new HeddleError("dtype", `pow: ${formatType(x)} to the ${y}: integers have no negative powers`, {
    hint: `cast to a float dtype first: pow(cast(x, "f32"), ${y})`,
  });
}

/** What operands of functions are looked at for, before they are brought to one dtype. */
export const operandChecks: {
  readonly [op: string]: ((x: TensorType | number | bigint, y: TensorType | number | bigint) => void) | undefined;
} = { pow: checkExponent };

/** The function of this op over a node. */
export const unary =
  (name: string) =>
  (x: Node): Node =>
    call(name, [x]);

/** The function of this op over two nodes or numbers, which takes them to one dtype and shape. */
export const binary =
  (name: string) =>
  (x: Operand, y: Operand): Node => {
    operandChecks[name]?.(x, y);
    return call(name, together(name, [x, y]));
  };
