/** @module Values of scripts: scalars, which may be lazy, matrices, frames and lists. */

import { concatenate, dense, Matrix, matrix } from "../matrix/index.ts";
import { isRecorded, isRecording } from "../matrix/programs.ts";
import { HeddleError } from "../util/errors.ts";

/** A text as a number; undefined unless it is a decimal number, `NaN` or an infinity (`0x10` is none). */
export function numberFrom(text: string): number | undefined {
  const word = text.trim();
  if (word === "NaN") return Number.NaN;
  const value = word === "" || /[xob]/i.test(word) ? Number.NaN : Number(word.replace(/^([+-]?)Inf$/i, "$1Infinity"));
  return Number.isNaN(value) ? undefined : value;
}

/** The types of scalars. */
export type ScalarType = "int" | "double" | "boolean" | "string";

/** A scalar: a value of the host, or a 1x1 matrix that is not computed before it is needed. */
export class Scalar {
  /** Its type in DML. */
  readonly type: ScalarType;
  private readonly held: number | string | Matrix;
  /** The number of a matrix, once it was read. */
  private read: number | undefined;

  constructor(type: ScalarType, held: number | string | boolean | Matrix) {
    this.type = type;
    this.held = typeof held === "boolean" ? Number(held) : held;
  }

  /** The 1x1 matrix of a scalar that is not computed yet, or through which a gradient is recorded. */
  get lazy(): Matrix | undefined {
    return this.held instanceof Matrix && (this.read === undefined || isRecording()) ? this.held : undefined;
  }

  /** The value: a string, or a number (a boolean is 0 or 1). */
  get value(): number | string {
    if (!(this.held instanceof Matrix)) return this.held;
    this.read ??= this.held.itemSync();
    return this.read;
  }

  /** The value as a number. @throws HeddleError `argument` for a string that is none */
  get number(): number {
    const { value } = this;
    if (typeof value === "number") return value;
    const number = numberFrom(value);
    if (number === undefined) throw new HeddleError("argument", `"${value}" is not a number`);
    return number;
  }

  /** The value as DML prints it. */
  get text(): string {
    const { value, type } = this;
    if (typeof value === "string") return value;
    if (type === "boolean") return value === 0 ? "FALSE" : "TRUE";
    return type === "int" ? String(value) : formatDouble(value);
  }

  /** The value as a 1x1 matrix. */
  get matrix(): Matrix {
    return this.held instanceof Matrix ? this.held : matrix([[this.number]]);
  }
}

/** Columns of text. */
export class Frame {
  /** The cells of each column, as text. */
  readonly columns: readonly (readonly string[])[];
  /** The names of the columns. */
  readonly names: readonly string[];
  /** The value type of each column, such as `STRING` or `FP64`. */
  readonly schema: readonly string[];
  /** The number of rows. */
  readonly rows: number;
  /** In the metadata of an encoding: what stands for missing values of each column. */
  readonly imputed: readonly (string | undefined)[] | undefined;

  constructor(
    columns: readonly (readonly string[])[],
    names?: readonly string[],
    schema?: readonly string[],
    imputed?: readonly (string | undefined)[],
  ) {
    this.imputed = imputed;
    this.columns = columns;
    this.names = names ?? columns.map((_column, index) => `C${index + 1}`);
    this.schema = schema ?? columns.map(() => "STRING");
    this.rows = columns[0]?.length ?? 0;
  }
}

/** Values, which may have names. */
export class List {
  /** The values, in order. */
  readonly items: readonly Value[];
  /** The name of each value that has a name. */
  readonly names: readonly (string | undefined)[];

  constructor(items: readonly Value[], names: readonly (string | undefined)[] = []) {
    this.items = items;
    this.names = names;
  }

  /** The value of a name. */
  named(name: string): Value | undefined {
    const at = this.names.indexOf(name);
    return at < 0 ? undefined : this.items[at];
  }
}

/** A value of a script. */
export type Value = Scalar | Matrix | Frame | List;

export const int = (value: number): Scalar => new Scalar("int", value);
export const double = (value: number | Matrix): Scalar => new Scalar("double", value);
export const boolean = (value: boolean | Matrix): Scalar => new Scalar("boolean", value);
export const string = (value: string): Scalar => new Scalar("string", value);

/** What a value is, for messages. */
export function kindOf(value: Value): string {
  if (value instanceof Scalar)
    return value.type === "string" ? `the string "${value.text}"` : `a scalar (${value.type})`;
  if (value instanceof Matrix) return `a matrix of ${value.rows}x${value.columns}`;
  return value instanceof Frame ? `a frame of ${value.rows}x${value.columns.length}` : "a list";
}

/** A double as Java writes it: `1.0`, `1.0E-4`. */
export function formatDouble(value: number): string {
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value > 0 ? "Infinity" : "-Infinity";
  const size = Math.abs(value);
  if (value === 0) return Object.is(value, -0) ? "-0.0" : "0.0";
  if (size >= 1e-3 && size < 1e7) return Number.isInteger(value) ? `${value}.0` : String(value);
  const [digits = "", power = ""] = value.toExponential().split("e");
  return `${digits.includes(".") ? digits : `${digits}.0`}E${Number(power)}`;
}

/**
 * The elements of a matrix that a function reads as constants. Its result would have a gradient of zero.
 *
 * @throws HeddleError `gradient` while a gradient is recorded that runs through the matrix
 */
export function constantsOf(name: string, x: Matrix): Float64Array {
  if (isRecording() && isRecorded(x.expression))
    throw new HeddleError("gradient", `${name}: reads values, and has no gradient`, {
      hint: "compute what depends on the parameters with other functions",
    });
  return x.dataSync();
}

/** A value as a matrix. @throws HeddleError `argument` for text, frames of text and longer lists */
export function asMatrix(value: Value): Matrix {
  if (value instanceof Matrix) return value;
  if (value instanceof Scalar) return value.matrix;
  if (value instanceof List && value.items.length === 1) return asMatrix(value.items[0] as Value);
  if (value instanceof List && value.items.every((item) => item instanceof Scalar))
    return value.items.length === 0 ? dense(new Float64Array(), 0, 1) : concatenate(value.items.map(asMatrix));
  if (value instanceof Frame) return matrixOfFrame(value);
  throw new HeddleError("argument", `as.matrix: cannot take ${kindOf(value)}`);
}

const cellNumber = (text: string): number => {
  if (text.trim() === "") return 0;
  if (/^(true|false)$/i.test(text)) return Number(text.toLowerCase() === "true");
  const value = numberFrom(text);
  if (value === undefined) throw new HeddleError("argument", `as.matrix: "${text}" is not a number`);
  return value;
};

function matrixOfFrame({ columns, rows }: Frame): Matrix {
  const data = new Float64Array(rows * columns.length);
  columns.forEach((column, j) => {
    column.forEach((text, i) => {
      data[i * columns.length + j] = cellNumber(text);
    });
  });
  return dense(data, rows, columns.length);
}

/** A value as a scalar. @throws HeddleError `argument` unless there is one element */
export function asScalar(value: Value): Scalar {
  if (value instanceof Scalar) return value;
  if (value instanceof Matrix && value.size === 1) return double(value);
  if (value instanceof List && value.items.length === 1) return asScalar(value.items[0] as Value);
  if (value instanceof Frame && value.rows === 1 && value.columns.length === 1)
    return scalarOfCell(value.columns[0]?.[0] ?? "", value.schema[0] as string);
  throw new HeddleError("argument", `as.scalar: cannot take ${kindOf(value)}`);
}

function scalarOfCell(text: string, schema: string): Scalar {
  if (/^(U?INT|FP)\d+$/.test(schema)) return new Scalar(schema.startsWith("FP") ? "double" : "int", cellNumber(text));
  return schema === "BOOLEAN" && /^(true|false)$/i.test(text) ? boolean(/^true$/i.test(text)) : string(text);
}

/** Matrices within a value that are not computed yet. */
export function pendingWithin(value: Value): readonly Matrix[] {
  if (value instanceof Matrix) return value.isComputed ? [] : [value];
  if (value instanceof Scalar) return value.lazy === undefined || value.lazy.isComputed ? [] : [value.lazy];
  return value instanceof List ? value.items.flatMap(pendingWithin) : [];
}
