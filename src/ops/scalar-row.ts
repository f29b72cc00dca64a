/** @module What a row of the table of scalar functions says. */
import type { DType } from "../ir/dtype.ts";
import type { Absent, Node } from "../ir/node.ts";

/** Cotangent of one input from that of the output: `gradient(dy, x, y, out)`. */
export type ScalarGradient = (dy: Node, x: Node, y: Node, out: Node) => Node | undefined;

export interface ScalarRow {
  readonly doc: string;
  readonly dtypes: "float" | "number" | "signed" | "integer" | "bits" | "any";
  /** The meaning on JavaScript numbers; rounding to the dtype follows. */
  readonly value: (x: number, y: number, dtype: DType) => number;
  /** One rule per input; undefined where the derivative is zero everywhere. */
  readonly gradient: readonly (ScalarGradient | undefined)[] | Absent;
  readonly linear: readonly (readonly number[])[];
  /** Arithmetic operations per element; transcendental functions count as 10. */
  readonly cost: number;
}
