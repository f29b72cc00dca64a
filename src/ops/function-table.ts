/**
 * @module The table of elementwise functions: the scalar functions, and other functions of one operand. The functions over nodes
 * (`spelled.ts`) and over tensors (`functions/methods/elementwise.ts`), and a table of docs/library.md, are made of it.
 */
import { type Absent, absent } from "../ir/node.ts";
import { opNamed } from "../ir/op.ts";
import "./activation.ts";
import "./cast.ts";
import { binaryRows, compareRows, unaryRows } from "./scalar.ts";
import type { ScalarRow } from "./scalar-row.ts";

/** A function of the table. */
export interface FunctionRow {
  readonly op: string | Absent;
  readonly kind: "unary" | "binary" | "comparison";
  /** The name of the function over nodes. */
  readonly nodes: string;
  /** The name of the function over tensors, which is a method too. */
  readonly function: string | Absent;
  readonly doc: string;
  /** What it throws, beyond what all functions of the table throw. */
  readonly throws: string | undefined;
}

type Rows = { readonly [name: string]: Pick<ScalarRow, "doc" | "throws" | "function" | "nodes"> };

const rowsOf = (kind: FunctionRow["kind"], rows: Rows): FunctionRow[] =>
  Object.entries(rows).map(([op, { doc, throws, function: name = op, nodes = op }]) => {
    return { op, kind, nodes, function: name, doc, throws };
  });

/** Functions of one operand that `emit-composed.ts` composes. */
const composed: Rows = {
  reciprocal: { doc: "1 / x, of floats; integers truncate toward 0." },
  square: { doc: "x times x; integers wrap." },
  isNaN: { doc: "Whether x is NaN; bool, false for all but floats." },
  isInf: { doc: "Whether x is infinite; bool. Of floats only." },
};

/** Every elementwise function of one or two operands. */
export const functionTable: readonly FunctionRow[] = [
  ...rowsOf("unary", unaryRows),
  ...["isFinite", "relu", "stopGradient"].flatMap((op) => rowsOf("unary", { [op]: { doc: opNamed(op).doc } })),
  ...rowsOf("unary", composed).map((row) => ({ ...row, op: absent("composed of other ops") })),
  ...rowsOf("binary", binaryRows),
  ...rowsOf("comparison", compareRows),
];
