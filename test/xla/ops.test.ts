import { afterAll, describe, test } from "vitest";
import { rows, runRow } from "../ops/table.ts";
import { grouped } from "../support/grouped.ts";
import { rowCases } from "../support/row.ts";
import { differenceOf } from "./differences.ts";
import { preparedPython, XlaOracle } from "./oracle.ts";

const oracle = new XlaOracle(preparedPython());
afterAll(() => oracle.close());

const together = grouped(oracle.evaluate, rowCases(rows.filter((row) => differenceOf(row) === undefined)));

describe("the table of ops in XLA", () => {
  for (const row of rows) {
    const name = `${row.op}: ${row.title}`;
    const reason = differenceOf(row);
    if (reason === undefined) test(name, () => runRow(row, together.evaluate), 60_000);
    else test.skip(`${name} (${reason})`, () => undefined);
  }
});
