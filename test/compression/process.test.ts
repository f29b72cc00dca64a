/** Compressed gradients between processes: the bits of devices in one process, and of a run that is resumed. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { started, withoutSpeed } from "../cli/heddle-process.ts";
import { missing } from "../native/evaluate.ts";
import { partOf } from "../support/sample.ts";

const script = fileURLToPath(new URL("../train/scripts/run.ts", import.meta.url));

let directory = "";
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "heddle-compression-"));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

async function trained(
  workers: number,
  settings: object,
  ...flags: string[]
): Promise<{ hash: string; steps: number }> {
  const command = ["run", script, "--workers", String(workers), ...flags, "--", JSON.stringify(settings)];
  const { status, stdout, stderr } = await started(command).ended;
  expect({ status, stderr: withoutSpeed(stderr) }).toEqual({ status: 0, stderr: "" });
  const { hash, steps } = JSON.parse(stdout.split("\n").find((line) => line.startsWith("{")) as string);
  return { hash, steps };
}

describe.skipIf(missing !== undefined)("processes", () => {
  const compressors: [number, object][] = [
    [2, { by: "topK", momentum: 0.9, least: 16 }],
    [4, { by: "powerSgd", least: 16 }],
    [4, { by: "int8", least: 16 }],
    [2, { by: "countSketch", least: 16 }],
  ];
  test.each(partOf(compressors, 2))(
    "%i workers with %o give the bits of as many devices in one process",
    async (workers, compression) => {
      const settings = { epochs: 2, dtype: "f32", axes: { data: workers }, compression };
      expect(await trained(workers, settings)).toEqual(await trained(1, settings));
    },
  );

  test("a run of one epoch, resumed for another, has the bits of a run of two", async () => {
    const settings = { dtype: "f32", compression: { by: "oneBit", momentum: 0.9, least: 16 } };
    const whole = await trained(2, { ...settings, epochs: 2 });
    await trained(2, { ...settings, epochs: 1, directory });
    expect(await trained(2, { ...settings, epochs: 2, directory }, "--resume")).toEqual(whole);
  });
});
