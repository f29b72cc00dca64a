/** A rank that ends as if all were well while others wait for it to join. */
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { loadNative } from "../../src/executors/native/binding.ts";
import { heddle } from "../cli/heddle-process.ts";

const script = fileURLToPath(new URL("./scripts/absent.ts", import.meta.url));

// The deadline of waits is an hour: what ends the run is that the launcher tells the others.
test.skipIf("error" in loadNative())("those who wait are told which one, and fail at once", { timeout: 60_000 }, () => {
  const { status, stderr } = heddle(["run", script, "--workers", "3", "--timeout", "3600"]);
  expect(status).toBe(1);
  expect(stderr).toMatch(/rank 1 ended with exit status 0, during joining while others still worked with it/);
  expect(stderr).toMatch(/rank [02] failed.*: rank [02] waits for all ranks to join, but rank 1 has ended/);
});
