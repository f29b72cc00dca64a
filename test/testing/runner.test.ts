/** Under Node's own runner. */
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { environment } from "../cli/heddle-process.ts";

test("values that differ fail, and tensors that are not the same object", () => {
  const script = fileURLToPath(new URL("./scripts/node-test.mjs", import.meta.url));
  const flags = ["--test", "--test-reporter=tap", script];
  const { status, stdout } = spawnSync(process.execPath, flags, { encoding: "utf8", env: environment() });
  expect(status).toBe(1);
  expect(stdout.match(/(?:not )?ok \d - (?:close|apart|deeply equal)$/gm)).toEqual([
    "ok 1 - close",
    "not ok 2 - apart",
    "not ok 3 - deeply equal",
  ]);
  expect(stdout).toMatch(/expectClose: 1 of 2 elements differ .*\n +worst at \[1\]: 2, expected 3 \(by 1\)/);
  expect(stdout).toContain("identity (heddle/testing compares values)");
});
