/** @module Equations of scalar arithmetic that hold for every value: NaN, infinities, -0 and wrapping integers too. */
import { dtypes, isFloat, isInteger } from "../ir/dtype.ts";
import type { HostTensor, Node } from "../ir/node.ts";
import { sameShape } from "../ir/shape.ts";
import { apply } from "../ir/trace.ts";
import { abs, add, broadcastInDim, cast, constant, div, evaluateNode, full, mul, select, sub } from "../ops/index.ts";
import { type Rule, rule } from "../rewrite/index.ts";
import { HeddleError } from "../util/errors.ts";
import { attr, holds, input, isAll, isOp, isPointwise, repeatedValue } from "./match.ts";

/** The other operand, if one of the two passes the test. */
function otherThan(node: Node, test: (operand: Node) => boolean): Node | undefined {
  const [x, y] = node.inputs as [Node, Node];
  return test(y) ? x : test(x) ? y : undefined;
}

/** 0 for integers; -0 for floats, because -0 + 0 is 0. */
const isNeutralOfAdd = (node: Node): boolean => isAll(node, isFloat(node.dtype) ? -0 : 0);

const equalOperand = (node: Node): Node | undefined => (node.inputs[0] === node.inputs[1] ? input(node) : undefined);

/** 1 / value, where multiplying by it rounds exactly as dividing by value does. */
function exactReciprocal(node: Node): number | undefined {
  const value = repeatedValue(node);
  if (value === undefined || !isFloat(node.dtype)) return undefined;
  const exponent = Math.log2(Math.abs(value));
  const bound = node.dtype === "f64" ? 1022 : node.dtype === "f16" ? 14 : 126;
  return Number.isInteger(exponent) && Math.abs(exponent) <= bound && 2 ** exponent === Math.abs(value)
    ? 1 / value
    : undefined;
}

/** Whether a cast through `middle` is exact and wraps, saturates or truncates as the direct cast does. */
function isPassage(from: Node, middle: Node, to: Node): boolean {
  if (!holds(middle.dtype, from.dtype)) return false;
  // Floats saturate where integers wrap.
  return isInteger(to.dtype) && isFloat(middle.dtype) && !isFloat(from.dtype) ? holds(to.dtype, from.dtype) : true;
}

function foldConstants(node: Node): Node | undefined {
  if (
    !isPointwise(node) ||
    node.types.length !== 1 ||
    node.shape.length > 0 ||
    !node.inputs.every((operand) => isOp(operand, "constant"))
  )
    return undefined;
  const values = node.inputs.map(
    (operand): HostTensor => ({
      dtype: operand.dtype,
      shape: [],
      data: dtypes[operand.dtype].create([attr<number>(operand, "value")]),
    }),
  );
  try {
    const value = evaluateNode(node, values)[0]?.data[0] as number | bigint;
    // A constant has one NaN, but bitcasts can make others.
    if (Number.isNaN(value) && !values.some(({ data }) => Number.isNaN(data[0]))) return undefined;
    // Larger integers are not constants: they are composed of two.
    return typeof value === "bigint" && !Number.isSafeInteger(Number(value)) ? undefined : constant(node.dtype, value);
  } catch (error) {
    // Division by zero is an error of the run, and only if it is reached.
    if (error instanceof HeddleError && error.code === "value") return undefined;
    throw error;
  }
}

/** Computes op(broadcast(x), broadcast(y)) once per source element. */
function beforeBroadcast(node: Node): Node | undefined {
  if (!isPointwise(node) || node.types.length !== 1 || !node.inputs.every((operand) => isOp(operand, "broadcast")))
    return undefined;
  const widest = node.inputs.reduce((a, b) => (input(b).shape.length > input(a).shape.length ? b : a));
  const { shape } = input(widest);
  const dims = attr<readonly number[]>(widest, "dims");
  const sources = node.inputs.map((operand) => {
    const source = input(operand);
    if (source.shape.length === 0) return shape.length === 0 ? source : broadcastInDim(source, shape, []);
    return sameShape(source.shape, shape) && sameShape(attr(operand, "dims"), dims) ? source : undefined;
  });
  if (sources.some((source) => source === undefined)) return undefined;
  return broadcastInDim(apply(node.op, sources as Node[], node.attrs), node.shape, dims);
}

function powerRule(node: Node): Node | undefined {
  const x = input(node);
  switch (repeatedValue(input(node, 1))) {
    case 0:
      return full(node.dtype, node.shape, 1);
    case 1:
      return x;
    case 2:
      return mul(x, x);
    case -1:
      return isFloat(x.dtype) ? div(1, x) : undefined;
    default:
      return undefined;
  }
}

export const scalarRules: readonly Rule[] = [
  rule("*", "fold constants", "op(constants) = constant", foldConstants),
  rule("*", "op before broadcast", "op(broadcast(x), broadcast(y)) = broadcast(op(x, y))", beforeBroadcast),
  rule("add", "add neutral", "x + (-0) = x; integers: x + 0 = x", (node) => otherThan(node, isNeutralOfAdd)),
  rule("sub", "subtract zero", "x - 0 = x", (node) => (isAll(input(node, 1), 0) ? input(node) : undefined)),
  rule("mul", "multiply by one", "x * 1 = x", (node) => otherThan(node, (operand) => isAll(operand, 1))),
  rule("div", "divide by one", "x / 1 = x", (node) => (isAll(input(node, 1), 1) ? input(node) : undefined)),
  rule("div", "divide by power of two", "x / 2^k = x * 2^-k", (node) => {
    const factor = exactReciprocal(input(node, 1));
    return factor === undefined ? undefined : mul(input(node), factor);
  }),
  rule("neg", "double negation", "-(-x) = x", (node) => (isOp(input(node), "neg") ? input(input(node)) : undefined)),
  rule("not", "double not", "not(not(x)) = x", (node) => (isOp(input(node), "not") ? input(input(node)) : undefined)),
  rule("add", "add negation", "x + (-y) = x - y", (node) => {
    const [x, y] = node.inputs as [Node, Node];
    return isOp(y, "neg") ? sub(x, input(y)) : isOp(x, "neg") ? sub(y, input(x)) : undefined;
  }),
  rule("sub", "subtract negation", "x - (-y) = x + y", (node) =>
    isOp(input(node, 1), "neg") ? add(input(node), input(input(node, 1))) : undefined,
  ),
  rule("abs", "abs of sign change", "|-x| = ||x|| = |x|", (node) =>
    isOp(input(node), "neg") || isOp(input(node), "abs") ? abs(input(input(node))) : undefined,
  ),
  rule("max min and or", "operand twice", "max(x, x) = x", equalOperand),
  rule("pow", "small power", "x^0 = 1; x^1 = x; x^2 = x * x; floats: x^-1 = 1 / x", powerRule),
  rule("select", "select by constant", "select(true, x, y) = x", (node) => {
    const value = repeatedValue(input(node));
    return value === undefined ? undefined : input(node, value !== 0 ? 1 : 2);
  }),
  rule("select", "select of one", "select(c, x, x) = x", (node) =>
    input(node, 1) === input(node, 2) ? input(node, 1) : undefined,
  ),
  rule("select", "select by not", "select(not(c), x, y) = select(c, y, x)", (node) =>
    isOp(input(node), "not") ? select(input(input(node)), input(node, 2), input(node, 1)) : undefined,
  ),
  rule("cast", "cast to own dtype", "cast(x: t, t) = x", (node) =>
    input(node).dtype === node.dtype ? input(node) : undefined,
  ),
  rule("cast", "cast of cast", "cast(cast(x, wider), t) = cast(x, t)", (node) => {
    const middle = input(node);
    return isOp(middle, "cast") && isPassage(input(middle), middle, node) ? cast(input(middle), node.dtype) : undefined;
  }),
];
