import { afterAll, describe, expect, test } from "vitest";
import { evaluateGraph } from "../../src/ops/index.ts";
import { type Row, rows, runRow } from "../ops/table.ts";
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

  test("what has no kernel says so", async () => {
    // Kernels are for one to three spatial dims; the reference executor runs the rest.
    const row: Row = {
      op: "conv",
      title: "four spatial dims",
      gradient: false,
      attrs: {
        layout: "bf0123,oi0123->bf0123",
        strides: [1, 1, 1, 1],
        padding: [0, 1, 2, 3].map(() => [0, 0]),
        inputDilation: [1, 1, 1, 1],
        kernelDilation: [1, 1, 1, 1],
      },
      inputs: [1, 2].map((seed) => ({
        dtype: "f32",
        shape: [1, 1, 2, 2, 2, 2],
        values: { low: 1, high: 2, seed },
      })),
    };
    await runRow(row, evaluateGraph);
    await expect(runRow(row, (machines[0] as (typeof machines)[number]).evaluate)).rejects.toThrow(
      "no native kernel for 4 spatial dims",
    );
  });

  describe.each(machines)("$isa, $threads threads", ({ evaluate }) => {
    test.each(rows.map((row) => ({ name: `${row.op}: ${row.title}`, row })))("$name", ({ row }) =>
      runRow(row, evaluate),
    );
  });
});
