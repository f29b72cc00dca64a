import { afterAll, describe, expect, test } from "vitest";
import { rows, runRow } from "../ops/table.ts";
import { instructionSets, missing, nativeEvaluate } from "./evaluate.ts";

describe.skipIf(missing !== undefined)("the table of ops on the native executor", () => {
  // The best set plainly and as compiling does it, the others as compiling does it.
  const machines = instructionSets().flatMap((isa, place) =>
    (place === 0 ? [1, 2] : [2]).map((threads) => ({ isa, threads, ...nativeEvaluate(isa, threads, threads === 2) })),
  );
  afterAll(() => {
    for (const machine of machines) machine.close();
  });

  test("this processor has an instruction set to test", () => {
    expect(machines.length).toBeGreaterThan(0);
  });

  // Kernels are for one and two spatial dims; the reference executor runs the rest.
  const lowered = rows.filter((row) => row.title.startsWith("three spatial dims") === false);

  test("what has no kernel says so", async () => {
    const [row] = rows.filter(({ title }) => title.startsWith("three spatial dims"));
    await expect(
      runRow(row as (typeof rows)[number], (machines[0] as (typeof machines)[number]).evaluate),
    ).rejects.toThrow("no native kernel for 3 spatial dims");
  });

  describe.each(machines)("$isa, $threads threads", ({ evaluate }) => {
    test.each(lowered.map((row) => ({ name: `${row.op}: ${row.title}`, row })))("$name", ({ row }) =>
      runRow(row, evaluate),
    );
  });
});
