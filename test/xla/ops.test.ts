import { afterAll, describe, test } from "vitest";
import { rows, runRow } from "../ops/table.ts";
import { differenceOf } from "./differences.ts";
import { preparedPython, XlaOracle } from "./oracle.ts";

const oracle = new XlaOracle(preparedPython());
afterAll(() => oracle.close());

describe("the table of ops in XLA", () => {
  for (const row of rows) {
    const name = `${row.op}: ${row.title}`;
    const reason = differenceOf(row);
    if (reason === undefined) test(name, () => runRow(row, oracle.evaluate), 60_000);
    else test.skip(`${name} (${reason})`, () => undefined);
  }
});
