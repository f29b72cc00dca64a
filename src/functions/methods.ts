/** @module Which functions of tensors are methods too, with the tensor as their first argument: one list, docs and types included. */

import { formatType } from "../ir/shape.ts";
import { Tensor } from "../tensor/tensor.ts";
import { HeddleError } from "../util/errors.ts";
import { foreignMembers, methodHint } from "../util/foreign.ts";
import * as functions from "./functions.ts";

const names = [
  // Elementwise, of one operand.
  "neg",
  "abs",
  "sign",
  "exp",
  "expm1",
  "exp2",
  "log",
  "log1p",
  "log2",
  "sqrt",
  "rsqrt",
  "cbrt",
  "square",
  "reciprocal",
  "sin",
  "cos",
  "tan",
  "asin",
  "acos",
  "atan",
  "sinh",
  "cosh",
  "tanh",
  "asinh",
  "acosh",
  "atanh",
  "sigmoid",
  "softplus",
  "relu",
  "erf",
  "erfc",
  "erfInv",
  "lgamma",
  "digamma",
  "floor",
  "ceil",
  "round",
  "trunc",
  "not",
  "isFinite",
  "isNaN",
  "isInf",
  "popcount",
  "countLeadingZeros",
  "stopGradient",
  "cast",
  "bitcast",
  // Elementwise, of several.
  "add",
  "sub",
  "mul",
  "div",
  "rem",
  "remainder",
  "floorDivide",
  "pow",
  "maximum",
  "minimum",
  "clamp",
  "and",
  "or",
  "xor",
  "atan2",
  "hypot",
  "copysign",
  "shiftLeft",
  "shiftRightLogical",
  "shiftRightArithmetic",
  "eq",
  "ne",
  "lt",
  "le",
  "gt",
  "ge",
  "isClose",
  // Over dims.
  "sum",
  "mean",
  "prod",
  "max",
  "min",
  "all",
  "any",
  "argMax",
  "argMin",
  "variance",
  "std",
  "median",
  "quantile",
  "softmax",
  "logSoftmax",
  "logSumExp",
  "cumsum",
  "cumprod",
  "cummax",
  "cummin",
  "logcumsumexp",
  "sort",
  "argsort",
  "topK",
  // Moving and picking.
  "reshape",
  "transpose",
  "moveDim",
  "broadcastTo",
  "expandDims",
  "squeeze",
  "at",
  "slice",
  "pick",
  "take",
  "takeAlongDim",
  "gather",
  "gatherNd",
  "split",
  "unstack",
  "flip",
  "roll",
  "tile",
  "repeat",
  "pad",
  "tril",
  "triu",
  "diagonal",
  "scatter",
  "scatterNd",
  "scatterAlongDim",
  // Products.
  "matmul",
] as const;

type Functions = Pick<typeof functions, (typeof names)[number]>;
type Method<F> = F extends (x: never, ...rest: infer Rest) => infer Result ? (...rest: Rest) => Result : never;

/** The methods: each does what the exported function of its name says, with this tensor as the first argument. */
export type Methods = { [Name in keyof Functions]: Method<Functions[Name]> };

declare module "../tensor/tensor.ts" {
  interface Tensor extends Methods {}
}

for (const name of names) {
  // biome-ignore lint/performance/noDynamicNamespaceImportAccess: every function of the list is a method, used or not.
  const call = functions[name] as (...given: unknown[]) => unknown;
  const value = function (this: Tensor, ...rest: unknown[]): unknown {
    return call(this, ...rest);
  };
  Object.defineProperty(Tensor.prototype, name, { value, writable: true, configurable: true });
}

// What tensors of other libraries have is no member by its type, and says what to write to whom types do not tell. An iterator is not
// among them: deep comparisons of test runners iterate over what has one.
for (const name of foreignMembers) {
  const missing = function (this: Tensor): undefined {
    if (this === Tensor.prototype) return;
    const hint = methodHint(name);
    throw new HeddleError("argument", `${formatType(this)} has no '${name}'`, hint === undefined ? {} : { hint });
  };
  Object.defineProperty(Tensor.prototype, name, {
    configurable: true,
    ...(name === "T" ? { get: missing } : { value: missing, writable: true }),
  });
}
