import { afterAll, describe, test } from "vitest";
import type { DType } from "../../src/ir/index.ts";
import { baseRows, runRow } from "../ops/table.ts";
import { otherDTypes, rowsIn } from "../support/dtypes.ts";
import { preparedPython, XlaOracle } from "./oracle.ts";

const oracle = new XlaOracle(preparedPython());
afterAll(() => oracle.close());

describe.each(Object.keys(otherDTypes) as DType[])("the table of ops in %s in XLA", (dtype) => {
  for (const row of rowsIn(baseRows, dtype))
    test(`${row.op}: ${row.title}`, () => runRow(row, oracle.evaluate), 60_000);
});
