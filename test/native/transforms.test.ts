import { afterAll, describe, test } from "vitest";
import { isFloat } from "../../src/ir/dtype.ts";
import { baseRows, rowGraph, rowInputs } from "../ops/table.ts";
import { batchings, runBatched } from "../support/batch.ts";
import { checkTangents } from "../support/forward.ts";
import { inDouble } from "../support/row.ts";
import { instructionSets, missing, nativeEvaluate } from "./evaluate.ts";

describe.skipIf(missing !== undefined)("batches and tangents on the native executor", () => {
  const { evaluate, close } = nativeEvaluate(instructionSets()[0] ?? "scalar", 2, true);
  afterAll(close);

  test.each(baseRows.map((row) => ({ name: `${row.op}: ${row.title}`, row })))("a batch of $name", async ({ row }) => {
    for (const batched of batchings(row)) await runBatched(row, batched, evaluate);
  });

  const smooth = baseRows.filter((row) => row.gradient !== false || row.op === "while");
  test.each(smooth.map((row) => ({ name: `${row.op}: ${row.title}`, row })))(
    "the tangent of $name",
    async ({ row }) => {
      const double = inDouble(row) ?? row;
      const moving = double.inputs.map(({ dtype }) => isFloat(dtype));
      const options = typeof row.gradient === "object" ? row.gradient : {};
      await checkTangents(rowGraph(double), rowInputs(double), moving, { ...options, evaluate });
    },
  );
});
