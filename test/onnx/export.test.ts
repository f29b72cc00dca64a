/** What Heddle exports, checked by the package onnx and run by ONNX Runtime. */
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { io, jit, random, type Tensor } from "heddle";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { isFloat } from "../../src/ir/dtype.ts";
import type { HostTensor } from "../../src/ir/node.ts";
import { exported } from "./exported.ts";
import { exportedOpen, typesOf } from "./exported-open.ts";

/** Each function with the types that it is written for, and those that it is run with. */
const rows = [
  ...exported.map((one) => ({ ...one, example: one.inputs })),
  ...exportedOpen.flatMap((one) =>
    one.runs.map((run) => ({
      name: `open: ${one.name} ${JSON.stringify(run)}`,
      fn: one.fn,
      example: one.inputs,
      inputs: typesOf(one, run),
      names: undefined,
    })),
  ),
];

const root = mkdtempSync(join(tmpdir(), "heddle-export-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));
const folderOf = (index: number): string => join(root, String(index));
const wanted: Tensor[] = [];

describe("export, by ONNX Runtime", () => {
  beforeAll(async () => {
    for (const [index, { fn, inputs, example, names }] of rows.entries()) {
      const given: Record<string, Tensor> = {};
      for (const [place, [name, { dtype, shape }]] of Object.entries(inputs).entries()) {
        const key = random.key(place);
        given[name] = isFloat(dtype) ? random.normal(key, shape) : random.uniform(key, shape).mul(4).cast(dtype);
      }
      mkdirSync(folderOf(index));
      await io.saveOnnx(join(folderOf(index), "model.onnx"), fn, example, { names });
      const hosts: [string, HostTensor][] = [];
      for (const [name, value] of Object.entries(given)) hosts.push([name, await io.toHost(value)]);
      await io.writeNpz(join(folderOf(index), "inputs.npz"), Object.fromEntries(hosts));
      wanted.push((jit((x: typeof given) => fn(x)) as typeof fn)(given) as Tensor);
    }
    const script = fileURLToPath(new URL("runtime.py", import.meta.url));
    const { status, stderr } = spawnSync(
      process.env["HEDDLE_ONNX_PYTHON"] as string,
      [script, ...rows.map((_row, index) => folderOf(index))],
      { encoding: "utf8" },
    );
    expect([status, stderr.split("\n").at(-2)]).toEqual([0, undefined]);
  });

  test.each(rows.map(({ name }, index) => [name, index] as const))("%s", async (_name, index) => {
    const { output } = await io.readNpz(join(folderOf(index), "outputs.npz"));
    const tensor = wanted[index] as Tensor;
    expect([output?.dtype, output?.shape]).toEqual([tensor.dtype, tensor.shape]);
    const values = await tensor.data();
    output?.data.forEach((value, place) => {
      expect(Number(value)).toBeCloseTo(Number(values[place]), 4);
    });
  });
});
