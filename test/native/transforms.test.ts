import { afterAll, describe, test } from "vitest";
import { isFloat } from "../../src/ir/dtype.ts";
import { baseRows, rowGraph, rowInputs } from "../ops/table.ts";
import { batchedCase, batchings, runBatched } from "../support/batch.ts";
import { checkTangents, tangentCase } from "../support/forward.ts";
import { grouped } from "../support/grouped.ts";
import { inDouble } from "../support/row.ts";
import { partOf } from "../support/sample.ts";
import { instructionSets, missing, nativeEvaluate } from "./evaluate.ts";

describe.skipIf(missing !== undefined)("batches and tangents on the native executor", () => {
  const { evaluate, close } = nativeEvaluate(instructionSets()[0] ?? "scalar", 2, true);
  afterAll(close);

  const batched = partOf(baseRows, 5, 2);
  const giving = batched.filter(({ fails }) => fails === undefined);
  const batches = grouped(
    evaluate,
    giving.flatMap((row) => batchings(row).map((which) => batchedCase(row, which))),
  );
  test.each(batched.map((row) => ({ name: `${row.op}: ${row.title}`, row })))("a batch of $name", async ({ row }) => {
    for (const which of batchings(row)) await runBatched(row, which, batches.evaluate);
  });

  const differentiable = baseRows.filter((row) => row.gradient !== false || row.op === "while");
  const smooth = partOf(differentiable, 5).map((row) => {
    const double = inDouble(row) ?? row;
    const moving = double.inputs.map(({ dtype }) => isFloat(dtype));
    return { name: `${row.op}: ${row.title}`, row, graph: rowGraph(double), inputs: rowInputs(double), moving };
  });
  const tangents = grouped(
    evaluate,
    smooth.map(({ graph, inputs, moving }) => tangentCase(graph, inputs, moving)),
  );
  test.each(smooth)("the tangent of $name", async ({ row, graph, inputs, moving }) => {
    const options = typeof row.gradient === "object" ? row.gradient : {};
    await checkTangents(graph, inputs, moving, { ...options, evaluate: tangents.evaluate });
  });

  test("all that run alone run together", () => {
    batches.check();
    tangents.check();
  });
});
