/** Ranks that join different meshes, or count different numbers of ranks, are told so at once, both sides in words. */
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { loadNative } from "../../src/executors/native/binding.ts";
import { started } from "../cli/heddle-process.ts";

const script = fileURLToPath(new URL("./scripts/meshes.ts", import.meta.url));

describe.skipIf("error" in loadNative())("two workers", { timeout: 60_000 }, () => {
  // Without the comparison they would wait for ten minutes.
  const run = (differs: string) => started(["run", script, "--workers", "2", "--timeout", "600", "--", differs]).ended;

  test.each([
    ["meshes", /ranks 0 and 1 join different meshes:\n +rank 0: data=2\n +rank 1: model=2\n/],
    ["sizes", /ranks 0 and 1 count different numbers of ranks:\n +rank 0: WORLD_SIZE 2\n +rank 1: WORLD_SIZE 3\n/],
  ])("%s", async (differs, says) => {
    const { status, stdout, stderr } = await run(differs);
    expect(stderr).toMatch(says);
    expect(status).toBe(1);
    expect(stdout).not.toContain("joined");
  });

  test.each(["order", "nothing"])("%s is no difference", async (differs) => {
    const { status, stdout, stderr } = await run(differs);
    expect({ status, stderr, stdout: stdout.match(/joined/g) }).toEqual({
      status: 0,
      stderr: "",
      stdout: ["joined", "joined"],
    });
  });
});
