/** @module Values as other values: to a declared type, from the command line, and as what a loop goes through. */
import { binary, type Matrix, unary } from "../matrix/index.ts";
import { isRecorded, isRecording } from "../matrix/programs.ts";
import { HeddleError } from "../util/errors.ts";
import { wholeOf } from "./builtin.ts";
import {
  asScalar,
  boolean,
  double,
  Frame,
  int,
  kindOf,
  List,
  numberFrom,
  Scalar,
  type ScalarType,
  string,
  type Value,
} from "./values.ts";

/** The elements of a matrix, one after another; parts of the matrix where a gradient is recorded through it. */
export function elementsOf(x: Matrix): Scalar[] {
  const isPart = isRecording() && isRecorded(x.expression);
  const column = x.reshape(x.size, 1);
  return Array.from(x.dataSync(), (number, at) => {
    if (isPart) return double(column.slice([at, at + 1]));
    return Number.isInteger(number) ? int(number) : double(number);
  });
}

/** The whole numbers of a range, upwards or downwards. */
export function rangeOf(from: Scalar, to: Scalar): Scalar[] {
  const [start, end] = [from.number, to.number];
  const step = start <= end ? 1 : -1;
  const make = from.type === "double" && !Number.isInteger(start) ? double : int;
  return Array.from({ length: Math.floor(Math.abs(end - start) + 1e-10) + 1 }, (_unused, index) =>
    make(start + index * step),
  );
}

/** A parameter of the command line: a number or a boolean where it looks like one. */
export function literal(text: string): Scalar {
  if (/^[+-]?\d+$/.test(text)) return int(Number(text));
  if (/^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$/.test(text)) return double(Number(text));
  return /^(TRUE|FALSE)$/i.test(text) ? boolean(text.toUpperCase() === "TRUE") : string(text);
}

/** A value as the type that a parameter or a result declares; a double loses its fraction as an int, as in SystemDS. */
export function converted(what: string, value: Value, type: string): Value {
  if (/^(double|int|integer|boolean|string)$/.test(type)) {
    const wanted = (type === "integer" ? "int" : type) as ScalarType;
    if (value instanceof Frame || !isSingle(value))
      throw new HeddleError("argument", `${what} is ${kindOf(value)}, not a scalar (${wanted})`);
    return convertedScalar(what, asScalar(value), wanted);
  }
  if (type === "matrix" && value instanceof Scalar)
    throw new HeddleError("argument", `${what} is ${kindOf(value)}, and a matrix is expected`, {
      hint: "write as.matrix(x)",
    });
  return value;
}

/** A result as the type that the function declares; the value of a whole number is not checked, as in SystemDS. */
export const returned = (what: string, value: Value, type: string): Value =>
  /^int/.test(type) && value instanceof Scalar && value.type === "double" ? value : converted(what, value, type);

/** Whether a value is one element, which {@link asScalar} takes out of it. */
export function isSingle(value: Value): boolean {
  if (value instanceof Scalar) return true;
  if (value instanceof List) return value.items.length === 1 && isSingle(value.items[0] as Value);
  return value instanceof Frame ? value.rows === 1 && value.columns.length === 1 : value.size === 1;
}

function convertedScalar(what: string, scalar: Scalar, wanted: ScalarType): Scalar {
  if (scalar.type === wanted) return scalar;
  if (wanted === "string") return string(scalar.text);
  const { lazy } = scalar;
  if (lazy !== undefined) {
    if (wanted === "double") return double(lazy);
    if (wanted === "boolean") return boolean(binary("ne", lazy, 0));
    // As `wholeOf`, but computed when it is read.
    return new Scalar("int", unary("sign", lazy).mul(unary("floor", unary("abs", lazy).add(1e-12))));
  }
  if (scalar.type === "string") {
    const isTruth = /^(true|false)$/i.test(scalar.text);
    if (wanted === "boolean" ? !isTruth : numberFrom(scalar.text) === undefined)
      throw new HeddleError("argument", `${what} is ${kindOf(scalar)}, not a scalar (${wanted})`);
    if (wanted === "boolean") return boolean(/^true$/i.test(scalar.text));
  }
  if (wanted === "boolean") return boolean(scalar.number !== 0);
  return new Scalar(wanted, wanted === "int" ? wholeOf(scalar.number) : scalar.number);
}
