import { afterAll, describe, inject, test } from "vitest";
import { type DType, isFloat } from "../../src/ir/index.ts";
import { baseRows, type Row, runRow } from "../ops/table.ts";
import { otherDTypes, rowsIn } from "../support/dtypes.ts";
import { grouped } from "../support/grouped.ts";
import { rowCases } from "../support/row.ts";
import { differenceOf } from "./differences.ts";
import { preparedPython, XlaOracle } from "./oracle.ts";

declare module "vitest" {
  interface ProvidedContext {
    /** Each that many of the rows in other dtypes, and with batched inputs, is taken. */
    every: number;
  }
}

const oracle = new XlaOracle(preparedPython());
afterAll(() => oracle.close());

/**
 * Integers are equal; floats that rows of integers give, such as means, are so within the rounding of f32. XLA rounds every sum of
 * a scatter to the dtype, of which there may be several to an element.
 */
function toleranceOf({ tolerance, ...row }: Row, dtype: DType): Row {
  if (tolerance === undefined || !isFloat(dtype)) return row;
  return { ...row, tolerance: row.op === "selectAndScatter" ? 4 * tolerance : tolerance };
}

describe.each(Object.keys(otherDTypes) as DType[])("the table of ops in %s in XLA", (dtype) => {
  const chosen = rowsIn(baseRows, dtype)
    .filter((_, index) => index % inject("every") === 0)
    .map((row) => toleranceOf(row, dtype));
  const together = grouped(oracle.evaluate, rowCases(chosen.filter((row) => differenceOf(row) === undefined)));
  for (const row of chosen) {
    const name = `${row.op}: ${row.title}`;
    const reason = differenceOf(row);
    if (reason === undefined) test(name, () => runRow(row, together.evaluate), 60_000);
    else test.skip(`${name} (${reason})`, () => undefined);
  }
});
