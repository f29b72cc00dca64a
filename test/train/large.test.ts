/** Data larger than the memory that training may keep of it: memory and the time to the first step do not depend on its size. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, describe, expect, test } from "vitest";
import { loadNative } from "../../src/executors/index.ts";
import { started, withoutSpeed } from "../cli/heddle-process.ts";

const script = fileURLToPath(new URL("./scripts/large.ts", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "heddle-large-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

interface Told {
  readonly rows: number;
  readonly steps: number;
  /** Rows that were read until the loss of the first step was known, and in all. */
  readonly readBefore: number;
  readonly read: number;
  readonly peakMiB: number;
  readonly loss: number;
}

async function trained(megabytes: number, workers: number): Promise<Told> {
  const args = ["run", script, "--workers", String(workers), "--", folder, String(megabytes * 2 ** 20)];
  // A quarter of it is for data: less than the file.
  const { status, stdout, stderr } = await started(args, { HEDDLE_MEMORY: "256MB" }).ended;
  expect({ status, stderr: withoutSpeed(stderr) }).toEqual({ status: 0, stderr: "" });
  return JSON.parse(stdout.split("\n").find((line) => line.startsWith("{")) as string) as Told;
}

describe.skipIf("error" in loadNative() || process.platform !== "linux")("a file that does not fit the budget", () => {
  test.each([1, 2])(
    "of five times the size takes as much memory, and as few rows before the first step: %i workers",
    async (workers) => {
      const [small, large] = [await trained(96, workers), await trained(480, workers)];
      expect(large.steps).toBe(5 * small.steps);
      // The order is of single rows, so near rows are read together: more than all rows, and never the file before a step.
      expect(large.read * workers).toBeGreaterThanOrEqual(large.rows);
      expect(large.readBefore).toBeLessThan(large.rows / 4);
      expect(large.readBefore).toBeLessThan(1.5 * small.readBefore);
      // The difference in size is 384 MiB.
      expect(large.peakMiB - small.peakMiB).toBeLessThan(96);
      expect(large.loss).toBeLessThan(small.loss);
    },
  );
});
