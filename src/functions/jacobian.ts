/** @module Jacobians and Hessians: derivatives of functions of a tensor, as tensors. */
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
   * `"forward"` takes one pass per element of the argument, `"reverse"` one per element of the value: use forward for
   * arguments with few elements, and for loops that end by a condition. Default `"reverse"`.
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

/** The unit vectors of `x` as tensors `[size, ...shape]`: one per element, with a 1 in its place. */
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
 * @throws HeddleError `gradient` unless the first argument and the value are float tensors; `option` for another mode.
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
    const ofFirst = (first: Tensor): Tensor => {
      const y: unknown = fn(first, ...rest);
      checkSmooth("jacobian", y, "the value");
      return y;
    };
    if (mode === "forward") {
      const columns = vmap((direction: Tensor) => jvp(ofFirst, [x], [direction]).tangent, { outDims: -1 })(basis(x));
      return columns.reshape([...columns.shape.slice(0, -1), ...x.shape]);
    }
    const { value, pullback } = vjp(ofFirst, x);
    const rows = vmap((weight: Tensor) => pullback(weight)[0])(basis(value));
    return rows.reshape([...value.shape, ...x.shape]);
  };
  return jit(whole, { name: `jacobian of ${fn.name === "" ? "function" : fn.name}` });
}

/**
 * The Hessian of a scalar function of a float tensor: its second derivatives, of shape `[...argument's, ...argument's]`, by forward
 * over reverse mode. For products with vectors only, `jvp(grad(fn), [x], [v]).tangent` avoids the whole Hessian.
 *
 * @throws HeddleError `gradient` unless the first argument is a float tensor and the value a float scalar.
 * @example hessian((x) => x.mul(x).mul(x).sum())(tensor([1, 2])) // [[6, 0], [0, 12]]
 */
// biome-ignore lint/suspicious/noExplicitAny: see jacobian
export function hessian<Rest extends any[]>(
  fn: (x: Tensor, ...rest: Rest) => Tensor,
  ...none: []
): (x: Tensor, ...rest: Rest) => Tensor {
  checkNoMore("hessian", none, "derivatives are by the first argument: for another write hessian((b) => f(a, b))");
  checkFunction("hessian", fn);
  return jacobian(grad(fn) as (x: Tensor, ...rest: Rest) => Tensor, { mode: "forward" });
}
