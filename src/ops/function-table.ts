/**
 * @module The table of functions that go element by element: what follows from a row of the scalar functions. The spellings over nodes
 * (`spelled.ts`) and over tensors (`functions/methods/elementwise.ts`) are made of it, with their docs.
 */
import type { Absent } from "../ir/node.ts";
import { binaryRows, compareRows, unaryRows } from "./scalar.ts";
import type { ScalarRow } from "./scalar-row.ts";

/** A function of the table. */
export interface FunctionRow {
  readonly op: string;
  readonly kind: "unary" | "binary" | "comparison";
  /** Its name over nodes. */
  readonly nodes: string;
  /** Its name over tensors, and as a method. */
  readonly function: string | Absent;
  readonly doc: string;
  readonly throws: string | undefined;
}

const rowsOf = (kind: FunctionRow["kind"], rows: { readonly [op: string]: Partial<ScalarRow> & { doc: string } }) =>
  Object.entries(rows).map(
    ([op, { doc, throws, function: name = op, nodes = op }]): FunctionRow => ({
      op,
      kind,
      nodes,
      function: name,
      doc,
      throws,
    }),
  );

/** Every function of one or two operands that is one op. */
export const functionTable: readonly FunctionRow[] = [
  ...rowsOf("unary", unaryRows),
  ...rowsOf("binary", binaryRows),
  ...rowsOf("comparison", Object.fromEntries(Object.entries(compareRows).map(([op, { doc }]) => [op, { doc }]))),
];
