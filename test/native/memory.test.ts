import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { describe, expect, test } from "vitest";
import { bundled } from "../support/bundled.ts";
import { missing } from "./evaluate.ts";

const run = promisify(execFile);

describe.skipIf(missing !== undefined)("memory", () => {
  test("10,000 steps, eager expressions and scoped ones, 1,000 models leave buffers and resident memory flat", async () => {
    const child = bundled(new URL("memory-child.ts", import.meta.url));
    const { stdout } = await run(process.execPath, ["--expose-gc", child], { timeout: 240_000 });
    const results = JSON.parse(stdout) as Record<
      string,
      { before: Record<string, number>; after: Record<string, number> }
    >;
    for (const [name, { before, after }] of Object.entries(results)) {
      expect(after["buffers"], `${name}: live buffers`).toBeLessThanOrEqual((before["buffers"] as number) + 8);
      // Keeping the buffers of all expressions would take 130 MB.
      expect(
        (after["bytes"] as number) - (before["bytes"] as number),
        `${name}: growth of resident memory`,
      ).toBeLessThan(48e6);
    }
  }, 300_000);
});
