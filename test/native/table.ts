/** @module The table of ops on one instruction set of the native executor, row by row. */
import { afterAll, describe, test } from "vitest";
import { type Row, rows, runRow } from "../ops/table.ts";
import { nativeEvaluate } from "./evaluate.ts";

const nameOf = (row: Row): string => `${row.op}: ${row.title}`;

/** About one row of four, by a hash of its name, so that new rows do not change which of the others these are. */
export function isSampled(row: Row): boolean {
  let hash = 0;
  for (const letter of nameOf(row)) hash = (Math.imul(hash, 31) + letter.charCodeAt(0)) >>> 0;
  return (hash ^ (hash >>> 16)) % 4 === 0;
}

/** Tests that rows (all of the table, by default) give their values. `passes`: simplified and arranged as compiling does it. */
export function testTable(isa: string, threads: number, passes: boolean, chosen: readonly Row[] = rows): void {
  describe(`${isa}, ${threads} threads${passes ? ", compiled" : ""}`, () => {
    const { evaluate, close } = nativeEvaluate(isa, threads, passes);
    afterAll(close);
    test.each(chosen.map((row) => ({ name: nameOf(row), row })))("$name", ({ row }) => runRow(row, evaluate));
  });
}
