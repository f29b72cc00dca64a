/** @module Rows of the table of scalar functions. */
import type { DType } from "../ir/dtype.ts";
import type { Absent, Node } from "../ir/node.ts";

/** Cotangent of one input from that of the output: `gradient(dy, x, y, out)`. */
export type ScalarGradient = (dy: Node, x: Node, y: Node, out: Node) => Node | undefined;

export interface ScalarRow {
  /** The docstring of the op, of its function over nodes, and of its function and method of tensors. */
  readonly doc: string;
  /** Errors that this function throws beyond the errors of all scalar functions. */
  readonly throws?: string;
  /** The name of the function of tensors, which is a method too. Default: the op's. */
  readonly function?: string | Absent;
  /** The name of the function over nodes; default: the op's. */
  readonly nodes?: string;
  readonly dtypes: "float" | "number" | "signed" | "integer" | "bits" | "any";
  /** The reference on JavaScript numbers; the result is then rounded to the dtype. */
  readonly value: (x: number, y: number, dtype: DType) => number;
  /** One rule per input; undefined where the derivative is zero everywhere. */
  readonly gradient: readonly (ScalarGradient | undefined)[] | Absent;
  readonly linear: readonly (readonly number[])[];
  /** Arithmetic operations per element; transcendental functions count as 10. */
  readonly cost: number;
}

/** A comparison. */
export interface CompareRow {
  readonly doc: string;
  readonly value: (x: number, y: number) => boolean;
}
