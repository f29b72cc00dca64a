import { afterAll, describe, inject, test } from "vitest";
import { rows } from "../ops/table.ts";
import { batchedCase, batchings, runBatched } from "../support/batch.ts";
import { grouped } from "../support/grouped.ts";
import { differenceOf } from "./differences.ts";
import { preparedPython, XlaOracle } from "./oracle.ts";

const oracle = new XlaOracle(preparedPython());
afterAll(() => oracle.close());

describe("rows of the table of ops, all inputs batched, in XLA", () => {
  const cases = rows
    .filter((row) => batchings(row).length > 0)
    .filter((_, index) => index % inject("every") === 0)
    .map((row) => ({ row, all: batchings(row).at(-1) as boolean[], reason: differenceOf(row) }));
  const together = grouped(
    oracle.evaluate,
    cases.flatMap(({ row, all, reason }) =>
      reason === undefined && row.fails === undefined ? [batchedCase(row, all)] : [],
    ),
  );
  for (const { row, all, reason } of cases) {
    const name = `${row.op}: ${row.title}`;
    if (reason === undefined) test(name, () => runBatched(row, all, together.evaluate), 60_000);
    else test.skip(`${name} (${reason})`, () => undefined);
  }
});
