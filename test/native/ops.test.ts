import { afterAll, describe, expect, test } from "vitest";
import { evaluateGraph } from "../../src/ops/index.ts";
import { type Row, rows, runRow } from "../ops/table.ts";
import { isSampled, partOf } from "../support/sample.ts";
import { instructionSets, missing, nativeEvaluate } from "./evaluate.ts";
import { nameOf, testTable } from "./table.ts";

describe.skipIf(missing !== undefined)("the table of ops on the native executor", () => {
  const [best, ...others] = instructionSets();
  const { evaluate, close } = nativeEvaluate(best ?? "scalar", 1, false);
  afterAll(close);

  test("this processor has an instruction set to test", () => {
    expect(best).toBeDefined();
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
    await expect(runRow(row, evaluate)).rejects.toThrow("no native kernel for 4 spatial dims");
  });

  // The best set as compiling does it, and a part of the rows plainly; of the other sets a part here, and all in `npm run test:grids`.
  testTable(best ?? "scalar", 1, false, partOf(rows, 3));
  testTable(best ?? "scalar", 2, true);
  for (const isa of others)
    testTable(
      isa,
      2,
      true,
      rows.filter((row) => isSampled(nameOf(row))),
    );
});
