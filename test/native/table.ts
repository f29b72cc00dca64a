/** @module The table of ops on one instruction set of the native executor, row by row. */
import { afterAll, describe, test } from "vitest";
import { type Row, rows, runRow } from "../ops/table.ts";
import { grouped } from "../support/grouped.ts";
import { rowCases } from "../support/row.ts";
import { nativeEvaluate } from "./evaluate.ts";

/** What a row is called. */
export const nameOf = (row: Row): string => `${row.op}: ${row.title}`;

/** Tests that rows (all of the table, by default) give their values. `passes`: simplified and arranged as compiling does it. */
export function testTable(isa: string, threads: number, passes: boolean, chosen: readonly Row[] = rows): void {
  describe(`${isa}, ${threads} threads${passes ? ", compiled" : ""}`, () => {
    const { evaluate, close } = nativeEvaluate(isa, threads, passes);
    afterAll(close);
    const together = grouped(evaluate, rowCases(chosen));
    test.each(chosen.map((row) => ({ name: nameOf(row), row })))("$name", ({ row }) => runRow(row, together.evaluate));
    test("all rows that run alone run together", () => together.check());
  });
}
