import { afterAll, describe, expect, test } from "vitest";
import { rows, runRow } from "../ops/table.ts";
import { instructionSets, missing, nativeEvaluate } from "./evaluate.ts";

describe.skipIf(missing !== undefined)("the table of ops on the native executor", () => {
  const machines = instructionSets().flatMap((isa) => [1, 2].map((threads) => ({ isa, threads, ...nativeEvaluate(isa, threads, threads === 2) })));
  afterAll(() => {
    for (const machine of machines) machine.close();
  });

  test("this processor has an instruction set to test", () => {
    expect(machines.length).toBeGreaterThan(0);
  });

  describe.each(machines)("$isa, $threads threads", ({ evaluate }) => {
    test.each(rows.map((row) => ({ name: `${row.op}: ${row.title}`, row })))("$name", ({ row }) => runRow(row, evaluate));
  });
});
