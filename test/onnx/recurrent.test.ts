/** What ONNX Runtime computes of recurrent layers with clips and activations, and what is imported of them. */
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { io, type Tensor, tensor } from "heddle";
import { afterAll, beforeAll, expect, test } from "vitest";
import { batch, features, recurrentModel, recurrentRows, time, titleOf, valuesOf } from "./recurrent-models.ts";

const root = mkdtempSync(join(tmpdir(), "heddle-recurrent-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));
const folderOf = (index: number): string => join(root, String(index));
const inputOf = (index: number): Tensor =>
  tensor(valuesOf(recurrentRows[index] as (typeof recurrentRows)[number]).x, { shape: [time, batch, features] });

beforeAll(async () => {
  for (const [index, row] of recurrentRows.entries()) {
    mkdirSync(folderOf(index));
    writeFileSync(join(folderOf(index), "model.onnx"), recurrentModel(row));
    await io.writeNpz(join(folderOf(index), "inputs.npz"), { x: inputOf(index) });
  }
  const script = fileURLToPath(new URL("runtime.py", import.meta.url));
  const { status, stderr } = spawnSync(
    process.env["HEDDLE_ONNX_PYTHON"] as string,
    [script, ...recurrentRows.map((_row, index) => folderOf(index))],
    { encoding: "utf8" },
  );
  expect([status, stderr]).toEqual([0, expect.anything()]);
});

test.each(recurrentRows.map((row, index) => [titleOf(row), index] as const))("%s", async (_title, index) => {
  const { output } = await io.readNpz(join(folderOf(index), "outputs.npz"));
  const model = await io.loadOnnx(join(folderOf(index), "model.onnx"));
  const got = model.run({ x: inputOf(index) })["output"] as Tensor;
  expect(output?.shape).toEqual(got.shape);
  const values = await got.data();
  output?.data.forEach((value, place) => {
    expect(Number(values[place])).toBeCloseTo(Number(value), 4);
  });
});
