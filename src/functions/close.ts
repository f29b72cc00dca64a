/** @module Whether numbers are nearly equal. */

import type { Node } from "../ir/node.ts";
import * as ops from "../ops/index.ts";
import { operate, type Tensor, type TensorLike } from "../tensor/tensor.ts";
import { checkNumber, checkOptions } from "../util/options.ts";
import { all } from "./methods/reductions.ts";

/** Options of {@link isClose} and {@link allClose}. */
export interface CloseOptions {
  /** The allowed difference as a share of |expected|; default 1e-5. */
  readonly rtol?: number;
  /** The allowed difference on top of that; default 1e-8. */
  readonly atol?: number;
  /** Whether NaN is close to NaN; default false. */
  readonly equalNan?: boolean;
}

export function closeness(name: string, actual: TensorLike, expected: TensorLike, options: CloseOptions): Tensor {
  checkOptions(name, options, ["rtol", "atol", "equalNan"]);
  const { rtol = 1e-5, atol = 1e-8, equalNan = false } = options;
  checkNumber(name, "rtol", rtol, 0);
  checkNumber(name, "atol", atol, 0);
  const build = (...all: unknown[]): Node => {
    const [relative, absolute, nan] = all.slice(2) as [number, number, boolean];
    const [x, y] = all.slice(0, 2).map((operand) => wide(operand as ops.Operand)) as [Node, Node];
    const near = ops.le(ops.abs(ops.sub(x, y)), ops.add(ops.mul(ops.abs(y), relative), absolute));
    const close = ops.or(ops.eq(x, y), ops.and(ops.isFinite(y), near));
    return nan ? ops.or(close, ops.and(ops.isNaN(x), ops.isNaN(y))) : close;
  };
  return operate(name, build, [actual, expected], rtol, atol, equalNan);
}

const wide = (operand: ops.Operand): Node =>
  typeof operand === "object" ? ops.cast(operand, "f64") : ops.constant("f64", Number(operand));

/**
 * Whether all elements are close by {@link isClose}. The function reads values: it gives a promise, and cannot run in a traced
 * function; write `all(isClose(x, y))` there.
 *
 * @throws HeddleError `shape` if shapes do not broadcast; `trace` while traced
 */
export async function allClose(actual: TensorLike, expected: TensorLike, options: CloseOptions = {}): Promise<boolean> {
  return (await all(closeness("allClose", actual, expected, options)).item()) !== 0;
}
