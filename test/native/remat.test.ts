/** Rematerialisation lowers the peak of memory that is predicted, and that which is measured. */
import { spawnSync } from "node:child_process";
import { describe, expect, test } from "vitest";
import { bundled } from "../support/bundled.ts";
import { missing } from "./evaluate.ts";

const child = bundled(new URL("./remat-child.ts", import.meta.url));

describe.skipIf(missing !== undefined)("the gradient of a deep network", () => {
  test("needs less than half of the memory when blocks are computed again", () => {
    // As the workers of a run: V8's space for young objects would grow by more than what is measured leaves room for.
    const { stdout, stderr } = spawnSync(process.execPath, ["--max-semi-space-size=2", child], { encoding: "utf8" });
    expect(stderr).toBe("");
    const [again, kept] = JSON.parse(stdout) as { predicted: number; grown: number; gradient: number[] }[];
    if (again === undefined || kept === undefined) throw new Error(stdout);
    // 32 activations of 2 MB, against 8 inputs of blocks and one block's 4.
    expect(kept.predicted).toBeGreaterThan(60);
    expect(again.predicted).toBeLessThan(kept.predicted / 2);
    // What the first run left behind, the second one uses again.
    expect(again.grown).toBeLessThan(kept.predicted / 2 + 8);
    expect(kept.grown).toBeGreaterThan((kept.predicted - again.predicted) / 2);
    const scale = Math.max(...kept.gradient.map(Math.abs));
    kept.gradient.forEach((value, at) => {
      expect(Math.abs(value - (again.gradient[at] as number)) / scale).toBeLessThan(1e-5);
    });
  });
});
