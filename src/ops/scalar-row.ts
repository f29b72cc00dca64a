/** @module What a row of the table of scalar functions says. */
import type { DType } from "../ir/dtype.ts";
import type { Absent, Node } from "../ir/node.ts";

/** Cotangent of one input from that of the output: `gradient(dy, x, y, out)`. */
export type ScalarGradient = (dy: Node, x: Node, y: Node, out: Node) => Node | undefined;

export interface ScalarRow {
  /** What users read of it, as an op, over nodes, as a function and as a method of tensors. */
  readonly doc: string;
  /** What is thrown, from where; left out: what all functions of such operands throw. */
  readonly throws?: string;
  /** The name of the function of tensors, which is a method too; left out: the op's. */
  readonly function?: string | Absent;
  /** The name of the function over nodes; left out: the op's. */
  readonly nodes?: string;
  readonly dtypes: "float" | "number" | "signed" | "integer" | "bits" | "any";
  /** The meaning on JavaScript numbers; rounding to the dtype follows. */
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
