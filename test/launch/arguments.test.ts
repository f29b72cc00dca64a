/** The arguments with which a worker's Node is started. */
import { fileURLToPath } from "node:url";
import { afterEach, expect, test, vi } from "vitest";
import { nodeArguments, standInOf } from "../../src/launch/loader.ts";

afterEach(() => {
  vi.unstubAllEnvs();
});

test.each([
  ["nothing said", "", true, true],
  ["another option", "--max-old-space-size=4096", true, true],
  ["a limit", "--trace-warnings --max-semi-space-size=16", false, true],
  ["a limit as V8 spells it", "--max_semi_space_size=16", false, true],
  ["old space", "--initial-old-space-size=256", true, false],
  ["both", "--initial_old_space_size=256 --max-semi-space-size=16", false, false],
])(
  "the spaces of young and old objects begin small unless NODE_OPTIONS says otherwise: %s",
  (_what, options, young, old) => {
    vi.stubEnv("NODE_OPTIONS", options);
    const given = nodeArguments("train.mjs", ["a"]);
    expect(given.includes("--max-semi-space-size=2")).toBe(young);
    expect(given.includes("--initial-old-space-size=32")).toBe(old);
    expect(given.slice(-2)).toEqual(["train.mjs", "a"]);
  },
);

test("a compiled file stands in for the user's while it is there", () => {
  const compiled = fileURLToPath(import.meta.url);
  const file = "/a project/träin & #1?.ts";
  const given = nodeArguments(file, ["a"], { file: compiled });
  expect(given.slice(-2)).toEqual([compiled, "a"]);
  expect(given.filter((word) => word.startsWith("file:")).map((url) => standInOf(url))).toEqual([{ compiled, file }]);
  for (const ahead of [{ file: `${compiled}.gone` }, { loader: "a reason" }, undefined]) {
    const byLoader = nodeArguments(file, ["a"], ahead);
    expect(byLoader.slice(-2)).toEqual([file, "a"]);
    expect(byLoader.filter((word) => word.startsWith("file:")).map((url) => standInOf(url))).not.toContainEqual({
      compiled,
      file,
    });
  }
});
