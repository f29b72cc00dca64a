/**
 * @module Rows of the table of scalar functions beyond exp and log: trigonometric, hyperbolic, other bases, special. Native
 * code is within 2 ULP in f32 (erfc, erfInv, lgamma and digamma 4), and within 1e-15 of the value in f64.
 */
import { absent, type Node } from "../ir/node.ts";
import * as emit from "./emit.ts";
import type { ScalarGradient, ScalarRow } from "./scalar-row.ts";
import { digamma, erfc, erfInv, lgamma, polygamma } from "./special.ts";

const { add, mul, sub, div, neg } = emit;
const square = (x: Node): Node => mul(x, x);
/** 1 / √(x² + 1); 1 / |x| for large x, whose square overflows and whose 1 is lost. */
const inverseLength = (x: Node): Node => {
  const far = emit.gt(emit.abs(x), x.dtype === "f64" ? 1e9 : 1e4);
  return emit.select(far, div(1, emit.abs(emit.select(far, x, 1))), emit.rsqrt(add(square(emit.select(far, 0, x)), 1)));
};

/** 1 - x², without losing digits near 1. */
const oneMinusSquare = (x: Node): Node => mul(sub(1, x), add(1, x));

const floatRow = (
  doc: string,
  value: (x: number) => number,
  gradient: ScalarGradient | undefined,
  cost = 20,
): ScalarRow => ({ doc, dtypes: "float", value, gradient: [gradient], linear: [], cost });

export const functionRows: { readonly [name: string]: ScalarRow } = {
  trunc: floatRow(
    "The integer part of floats: rounds toward 0 and keeps the sign of zero. Its gradient is 0.",
    Math.trunc,
    undefined,
    3,
  ),
  tan: floatRow("Tangent of floats, in radians; NaN at infinities.", Math.tan, (dy, _x, _y, out) =>
    mul(dy, add(1, square(out))),
  ),
  atan: floatRow("Inverse tangent of floats, in radians from -pi/2 to pi/2.", Math.atan, (dy, x) =>
    div(dy, add(1, square(x))),
  ),
  asin: floatRow("Inverse sine of floats, in radians from -pi/2 to pi/2; NaN outside [-1, 1].", Math.asin, (dy, x) =>
    mul(dy, emit.rsqrt(oneMinusSquare(x))),
  ),
  acos: floatRow("Inverse cosine of floats, in radians from 0 to pi; NaN outside [-1, 1].", Math.acos, (dy, x) =>
    neg(mul(dy, emit.rsqrt(oneMinusSquare(x)))),
  ),
  sinh: floatRow("Hyperbolic sine, (exp(x) - exp(-x)) / 2, of floats.", Math.sinh, (dy, x) => mul(dy, emit.cosh(x))),
  cosh: floatRow("Hyperbolic cosine, (exp(x) + exp(-x)) / 2, of floats; no less than 1.", Math.cosh, (dy, x) =>
    mul(dy, emit.sinh(x)),
  ),
  asinh: floatRow("Inverse hyperbolic sine, log(x + sqrt(x² + 1)), of floats.", Math.asinh, (dy, x) =>
    mul(dy, inverseLength(x)),
  ),
  acosh: floatRow(
    "Inverse hyperbolic cosine, log(x + sqrt(x² - 1)), of floats: no less than 0; NaN below 1.",
    Math.acosh,
    (dy, x) => mul(dy, emit.rsqrt(mul(sub(x, 1), add(x, 1)))),
  ),
  atanh: floatRow("Inverse hyperbolic tangent of floats: infinite at -1 and 1, NaN outside.", Math.atanh, (dy, x) =>
    div(dy, oneMinusSquare(x)),
  ),
  exp2: floatRow(
    "2 to the x, of floats.",
    (x) => 2 ** x,
    (dy, _x, _y, out) => mul(dy, mul(out, Math.LN2)),
    10,
  ),
  log2: floatRow(
    "Logarithm to base 2, of floats, exact at powers of 2: -Infinity at 0, NaN below.",
    Math.log2,
    (dy, x) => div(mul(dy, Math.LOG2E), x),
  ),
  cbrt: floatRow(
    "Cube root of floats, also of negative numbers; keeps -0. The gradient at 0 is infinite.",
    Math.cbrt,
    (dy, _x, _y, out) => div(dy, mul(3, square(out))),
  ),
  erfc: floatRow("1 - erf(x), of floats, which keeps its digits where erf is near 1.", erfc, (dy, x) =>
    mul(dy, mul(emit.exp(neg(square(x))), -2 / Math.sqrt(Math.PI))),
  ),
  erfInv: floatRow(
    "The inverse of erf, of floats: infinite at -1 and 1, NaN outside.",
    erfInv,
    (dy, _x, _y, out) => mul(dy, mul(emit.exp(square(out)), Math.sqrt(Math.PI) / 2)),
    30,
  ),
  lgamma: floatRow(
    "Logarithm of |gamma(x)|, of floats; infinite at 0, -1, -2, ….",
    lgamma,
    (dy, x) => mul(dy, emit.digamma(x)),
    40,
  ),
  digamma: floatRow(
    "Derivative of {@link lgamma}, of floats: -Infinity at 0, Infinity at -0, NaN at -1, -2, ….",
    digamma,
    (dy, x) => mul(dy, emit.polygamma(1, x)),
    40,
  ),
};

/** part(x, y) / (x² + y²), which overflows or vanishes only if the quotient does; 0 at the origin, as in PyTorch. */
function overRadius(part: (x: Node, y: Node) => Node, x: Node, y: Node): Node {
  const largest = emit.maximum(emit.abs(x), emit.abs(y));
  const plain = emit.or(emit.eq(largest, 0), emit.eq(largest, Infinity));
  // The quotient is the same for any size, so derivatives take the size for a constant.
  const size = emit.call("stopGradient", [emit.select(plain, 1, largest)]);
  const [u, v] = [div(x, size), div(y, size)];
  const radius = add(square(u), square(v));
  const origin = emit.eq(radius, 0);
  return emit.select(origin, 0, div(div(part(u, v), emit.select(origin, 1, radius)), size));
}

export const functionPairs: { readonly [name: string]: ScalarRow } = {
  atan2: {
    doc: "The angle of the point (x, y) from the x axis, of floats, in [-pi, pi]. The first operand is y, the second is x: atan2(y, x). Gradients at the origin are 0.",
    dtypes: "float",
    value: Math.atan2,
    gradient: [
      (dy, x, y) =>
        mul(
          dy,
          overRadius((_u, v) => v, x, y),
        ),
      (dy, x, y) =>
        neg(
          mul(
            dy,
            overRadius((u) => u, x, y),
          ),
        ),
    ],
    linear: [],
    cost: 20,
  },
  polygamma: {
    doc: "The derivative of order n of digamma at x, of floats. The first operand is n, a whole number from 0 to 170; other numbers give NaN. No gradient flows to n.",
    function: absent("its first operand is the order, so it is no method"),
    dtypes: "float",
    value: polygamma,
    gradient: [undefined, (dy, n, x) => mul(dy, emit.polygamma(add(n, 1), x))],
    linear: [],
    cost: 100,
  },
};
