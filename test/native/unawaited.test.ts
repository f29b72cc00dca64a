import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { describe, expect, test } from "vitest";
import { bundled } from "../support/bundled.ts";
import { missing } from "./evaluate.ts";

const run = promisify(execFile);

describe.skipIf(missing !== undefined)("loops that never await", () => {
  test("keep live buffers and resident memory bounded, eager and compiled", async () => {
    const child = bundled(new URL("unawaited-child.ts", import.meta.url));
    const { stdout } = await run(process.execPath, [child], { timeout: 240_000 });
    const results = JSON.parse(stdout) as Record<string, { buffers: number; growth: number }>;
    expect(Object.keys(results)).toEqual(["dropped", "chained", "queued", "steps"]);
    for (const [name, { buffers, growth }] of Object.entries(results)) {
      // All results of a loop would be 1 to 10 GB in 2,000 to 20,000 buffers.
      expect(buffers, `${name}: live buffers`).toBeLessThan(1500);
      expect(growth, `${name}: growth of resident memory`).toBeLessThan(400e6);
    }
  }, 300_000);
});
