import { afterAll, describe, test } from "vitest";
import { rows } from "../ops/table.ts";
import { batchings, runBatched } from "../support/batch.ts";
import { differenceOf } from "./differences.ts";
import { preparedPython, XlaOracle } from "./oracle.ts";

const oracle = new XlaOracle(preparedPython());
afterAll(() => oracle.close());

describe("rows of the table of ops, all inputs batched, in XLA", () => {
  for (const row of rows.filter(({ inputs }) => inputs.length > 0)) {
    const name = `${row.op}: ${row.title}`;
    const reason = differenceOf(row);
    const all = batchings(row).at(-1) as boolean[];
    if (reason === undefined) test(name, () => runBatched(row, all, oracle.evaluate), 60_000);
    else test.skip(`${name} (${reason})`, () => undefined);
  }
});
