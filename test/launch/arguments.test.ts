/** The arguments with which a worker's Node is started. */
import { afterEach, expect, test, vi } from "vitest";
import { nodeArguments } from "../../src/launch/loader.ts";

afterEach(() => {
  vi.unstubAllEnvs();
});

test.each([
  ["nothing said", "", true],
  ["another option", "--max-old-space-size=4096", true],
  ["a limit", "--trace-warnings --max-semi-space-size=16", false],
  ["a limit as V8 spells it", "--max_semi_space_size=16", false],
])("the space of young objects is limited unless NODE_OPTIONS limits it: %s", (_what, options, limited) => {
  vi.stubEnv("NODE_OPTIONS", options);
  const given = nodeArguments("train.mjs", ["a"]);
  expect(given.includes("--max-semi-space-size=2")).toBe(limited);
  expect(given.slice(-2)).toEqual(["train.mjs", "a"]);
});
