/** @module Scalar functions in StableHLO: by name where StableHLO has them, else composed. */
import { type DType, isSigned } from "../ir/dtype.ts";
import type { Attrs } from "../ir/node.ts";
import { binaryRows, scalarNames, unaryRows } from "../ops/scalar.ts";
import { type HloBlock, type HloRule, type HloValue, hloSame } from "./block.ts";
import { polygamma, unary } from "./functions.ts";
import { erf, power } from "./powers.ts";
import { stablehloRules } from "./rules.ts";
import { hloInSingle } from "./shared.ts";

const spellings: { readonly [op: string]: string | ((hlo: HloBlock, x: HloValue, y: HloValue) => HloValue) } = {
  neg: "negate",
  abs: "abs",
  sign: "sign",
  exp: "exponential",
  expm1: "exponential_minus_one",
  log: "log",
  log1p: "log_plus_one",
  sqrt: "sqrt",
  rsqrt: "rsqrt",
  cbrt: "cbrt",
  tanh: "tanh",
  logistic: "logistic",
  softplus: (hlo, x) => {
    const positive = hlo.same("maximum", x, hlo.like(x, 0));
    const tail = hlo.same("exponential", hlo.same("negate", hlo.same("abs", x)));
    return hlo.same("add", positive, hlo.same("log_plus_one", tail));
  },
  erf,
  sin: "sine",
  cos: "cosine",
  floor: "floor",
  ceil: "ceil",
  round: "round_nearest_even",
  not: "not",
  popcount: "popcnt",
  countLeadingZeros: "count_leading_zeros",
  add: "add",
  sub: "subtract",
  mul: "multiply",
  div: "divide",
  rem: "remainder",
  pow: power,
  max: "maximum",
  min: "minimum",
  and: "and",
  or: "or",
  xor: "xor",
  atan2: "atan2",
  polygamma,
  shiftLeft: "shift_left",
  shiftRight: (hlo, x, y) =>
    hlo.same(isSigned(x.type.dtype as DType) ? "shift_right_arithmetic" : "shift_right_logical", x, y),
  shiftRightLogical: "shift_right_logical",
  shiftRightArithmetic: "shift_right_arithmetic",
  ...unary,
};

const ruleOf = (op: string): HloRule<Attrs> => {
  const spelling = spellings[op] as (typeof spellings)[string];
  const rule: HloRule<Attrs> =
    typeof spelling === "string"
      ? hloSame(spelling)
      : ({ hlo, inputs }) => [spelling(hlo, inputs[0] as HloValue, (inputs[1] ?? inputs[0]) as HloValue)];
  return (unaryRows[op] ?? binaryRows[op])?.dtypes === "float" ? hloInSingle(rule) : rule;
};

stablehloRules.define(Object.fromEntries(Object.keys(spellings).map((op) => [op, ruleOf(op)])));
stablehloRules.define(
  Object.fromEntries(
    scalarNames.compare.map((op): [string, HloRule<Attrs>] => [
      op,
      ({ hlo, inputs }) => [hlo.compare(op.toUpperCase(), inputs[0] as HloValue, inputs[1] as HloValue)],
    ]),
  ),
);
