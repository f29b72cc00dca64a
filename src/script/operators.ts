/** @module Operators of DML on any two values. */

import { type BinaryName, binary, Matrix, unary } from "../matrix/index.ts";
import { HeddleError } from "../util/errors.ts";
import { asMatrix, Frame, kindOf, List, Scalar, type ScalarType, type Value } from "./values.ts";

const names: Readonly<Record<string, BinaryName>> = {
  "+": "add",
  "-": "sub",
  "*": "mul",
  "/": "div",
  "^": "pow",
  "%%": "rem",
  "%/%": "quotient",
  "==": "eq",
  "!=": "ne",
  "<": "lt",
  "<=": "le",
  ">": "gt",
  ">=": "ge",
  "&": "and",
  "&&": "and",
  "|": "or",
  "||": "or",
};

const ofNumbers: Readonly<Record<BinaryName, (x: number, y: number) => number>> = {
  add: (x, y) => x + y,
  sub: (x, y) => x - y,
  mul: (x, y) => x * y,
  div: (x, y) => x / y,
  pow: (x, y) => x ** y,
  mod: (x, y) => x - Math.floor(x / y) * y,
  intdiv: (x, y) => Math.floor(x / y),
  rem: (x, y) => x % y,
  quotient: (x, y) => Math.trunc(x / y),
  min: Math.min,
  max: Math.max,
  eq: (x, y) => Number(x === y),
  ne: (x, y) => Number(x !== y),
  lt: (x, y) => Number(x < y),
  le: (x, y) => Number(x <= y),
  gt: (x, y) => Number(x > y),
  ge: (x, y) => Number(x >= y),
  and: (x, y) => Number(x !== 0 && y !== 0),
  or: (x, y) => Number(x !== 0 || y !== 0),
  xor: (x, y) => Number((x !== 0) !== (y !== 0)),
  bitwAnd: (x, y) => Number(BigInt(x) & BigInt(y)),
  bitwOr: (x, y) => Number(BigInt(x) | BigInt(y)),
  bitwXor: (x, y) => Number(BigInt(x) ^ BigInt(y)),
  bitwShiftL: (x, y) => x * 2 ** y,
  bitwShiftR: (x, y) => Math.floor(x / 2 ** y),
};

const truths: ReadonlySet<BinaryName> = new Set(["eq", "ne", "lt", "le", "gt", "ge", "and", "or", "xor"]);

/** The type of a result of two scalars. */
function typeOf(name: BinaryName, x: Scalar, y: Scalar): ScalarType {
  if (truths.has(name)) return "boolean";
  const whole = x.type !== "double" && y.type !== "double" && name !== "div" && name !== "pow";
  return whole ? "int" : "double";
}

/** An operator as the script writes it. @throws HeddleError `argument` for values that it does not take, `shape` for sizes that do not fit */
export function operate(symbol: string, left: Value, right: Value): Value {
  if (symbol === "%*%") return asOperand(symbol, left).matmul(asOperand(symbol, right));
  return operateNamed(names[symbol] as BinaryName, left, right, symbol);
}

/** An elementwise function of two values, by its name. */
export function operateNamed(name: BinaryName, left: Value, right: Value, symbol: string = name): Value {
  if (left instanceof Scalar && right instanceof Scalar) return ofScalars(name, left, right, symbol);
  const [x, y] = [asOperand(symbol, left), asOperand(symbol, right)];
  if (left instanceof Matrix && right instanceof Matrix) checkSizes(symbol, x, y);
  return binary(name, x, y);
}

function ofScalars(name: BinaryName, x: Scalar, y: Scalar, symbol: string): Scalar {
  if (x.type === "string" || y.type === "string") return ofText(name, x, y, symbol);
  const type = typeOf(name, x, y);
  if (x.lazy !== undefined || y.lazy !== undefined)
    return new Scalar(type, binary(name, x.lazy ?? x.number, y.lazy ?? y.number));
  return new Scalar(type, ofNumbers[name](x.number, y.number));
}

function ofText(name: BinaryName, x: Scalar, y: Scalar, symbol: string): Scalar {
  if (name === "add") return new Scalar("string", x.text + y.text);
  const order = x.text < y.text ? -1 : x.text > y.text ? 1 : 0;
  if (truths.has(name) && name !== "and" && name !== "or" && name !== "xor")
    return new Scalar("boolean", ofNumbers[name](order, 0));
  throw new HeddleError("argument", `'${symbol}' does not take strings`);
}

function asOperand(symbol: string, value: Value): Matrix {
  if (value instanceof Frame || (value instanceof List && value.items.length !== 1))
    throw new HeddleError("argument", `'${symbol}' does not take ${kindOf(value)}`);
  return asMatrix(value);
}

/** DML repeats a vector over a matrix, but makes no outer product of a column and a row. */
function checkSizes(symbol: string, x: Matrix, y: Matrix): void {
  const isOuter = (a: Matrix, b: Matrix): boolean => a.columns === 1 && b.rows === 1 && a.rows > 1 && b.columns > 1;
  if (!isOuter(x, y) && !isOuter(y, x)) return;
  throw new HeddleError("shape", `'${symbol}': ${x.rows}x${x.columns} and ${y.rows}x${y.columns} do not fit`, {
    hint: `write outer(x, y, "${symbol}")`,
  });
}

/** A prefix operator. */
export function operateUnary(symbol: "-" | "+" | "!", value: Value): Value {
  if (symbol === "+") return value;
  if (value instanceof Scalar && value.lazy === undefined)
    return symbol === "-"
      ? new Scalar(value.type === "double" ? "double" : "int", -value.number)
      : new Scalar("boolean", value.number === 0);
  const result = unary(symbol === "-" ? "neg" : "not", asOperand(symbol, value));
  if (!(value instanceof Scalar)) return result;
  return new Scalar(symbol === "-" ? value.type : "boolean", result);
}

/** The elementwise function that an operator as text stands for, as in `outer(x, y, "<")`. */
export function nameOfOperator(symbol: string): BinaryName {
  const name = names[symbol] ?? (symbol in ofNumbers ? (symbol as BinaryName) : undefined);
  if (name === undefined) throw new HeddleError("argument", `there is no operator "${symbol}"`);
  return name;
}
