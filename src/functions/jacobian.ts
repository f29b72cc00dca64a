/** @module Jacobians and Hessians: derivatives of functions of a tensor as tensors. */
import { isFloat } from "../ir/dtype.ts";
import { formatType, sizeOf } from "../ir/shape.ts";
import * as ops from "../ops/index.ts";
import { checkFunction, checkNoMore } from "../tensor/arguments.ts";
import { grad, jvp, vjp } from "../tensor/derivatives.ts";
import { isTensor, Tensor } from "../tensor/tensor.ts";
import { jit } from "../tensor/transforms.ts";
import { vmap } from "../tensor/vmap.ts";
import { HeddleError } from "../util/errors.ts";
import { checkOptions } from "../util/options.ts";
import { shown } from "../util/show.ts";

/** Options of {@link jacobian}. */
export interface JacobianOptions {
  /**
   * `"forward"` costs one pass for each element of the argument, `"reverse"` one for each element of the value: take forward for
   * few arguments, and for loops that end by a condition. Default `"reverse"`.
   */
  readonly mode?: "forward" | "reverse";
}

function checkSmooth(what: string, x: unknown, of: string): asserts x is Tensor {
  if (isTensor(x) && isFloat(x.dtype)) return;
  throw new HeddleError(
    "gradient",
    `${what}: ${of} must be a float tensor, got ${isTensor(x) ? formatType(x) : shown(x)}`,
  );
}

/** One tensor per element of `x`, with a 1 in its place: `[size, ...shape]`. */
function basis({ dtype, shape }: Tensor): Tensor {
  const size = sizeOf(shape);
  const order = ops.iota("i32", [size], 0);
  return Tensor.ofNode(ops.reshape(ops.oneHot(order, size, dtype), [size, ...shape]));
}

/**
 * The Jacobian of a function of a float tensor that gives a float tensor: the derivative of each element of the value by each
 * element of the first argument, of shape `[...value's, ...argument's]`.
 *
 * @returns a function of the same arguments, compiled like one of {@link jit}
 * @throws HeddleError `gradient` when the first argument or the value is no float tensor; `option` for another mode.
 * @example jacobian((x) => x.mul(x))(tensor([1, 2])) // [[2, 0], [0, 4]]
 */
// biome-ignore lint/suspicious/noExplicitAny: functions of any further arguments; their own types are kept by the generics
export function jacobian<Rest extends any[]>(
  fn: (x: Tensor, ...rest: Rest) => Tensor,
  options: JacobianOptions = {},
): (x: Tensor, ...rest: Rest) => Tensor {
  checkFunction("jacobian", fn);
  checkOptions("jacobian", options, ["mode"]);
  const { mode = "reverse" } = options;
  if (mode !== "forward" && mode !== "reverse")
    throw new HeddleError("option", `jacobian: the mode is "forward" or "reverse", got ${shown(mode)}`);
  const whole = (x: Tensor, ...rest: Rest): Tensor => {
    checkSmooth("jacobian", x, "the first argument");
    const one = (given: Tensor): Tensor => {
      const y: unknown = fn(given, ...rest);
      checkSmooth("jacobian", y, "the value");
      return y;
    };
    if (mode === "forward") {
      const columns = vmap((direction: Tensor) => jvp(one, [x], [direction]).tangent, { outDims: -1 })(basis(x));
      return columns.reshape([...columns.shape.slice(0, -1), ...x.shape]);
    }
    const { value, pullback } = vjp(one, x);
    const rows = vmap((weight: Tensor) => pullback(weight)[0])(basis(value));
    return rows.reshape([...value.shape, ...x.shape]);
  };
  return jit(whole, { name: `jacobian of ${fn.name === "" ? "function" : fn.name}` });
}

/**
 * The Hessian of a scalar function of a float tensor: its second derivatives, of shape `[...argument's, ...argument's]`; forward
 * over reverse. Where only products with vectors are needed, `jvp(grad(fn), [x], [v]).tangent` never makes it.
 *
 * @throws HeddleError `gradient` when the first argument is no float tensor, or the value no float scalar.
 * @example hessian((x) => x.mul(x).mul(x).sum())(tensor([1, 2])) // [[6, 0], [0, 12]]
 */
// biome-ignore lint/suspicious/noExplicitAny: see jacobian
export function hessian<Rest extends any[]>(
  fn: (x: Tensor, ...rest: Rest) => Tensor,
  ...none: []
): (x: Tensor, ...rest: Rest) => Tensor {
  checkNoMore("hessian", none, "it goes by the first argument: for another, hessian((b) => f(a, b))");
  checkFunction("hessian", fn);
  return jacobian(grad(fn) as (x: Tensor, ...rest: Rest) => Tensor, { mode: "forward" });
}
