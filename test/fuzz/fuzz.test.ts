/** Every parser that faces a wire or a file, on some mutated inputs; `npm run fuzz` has 100,000 for each. */
import { describe, expect, test } from "vitest";
import { HeddleError } from "../../src/util/errors.ts";
import { isWhole } from "../support/sample.ts";
import { fuzz } from "./engine.ts";
import { targets } from "./targets.ts";

const inputs = isWhole() ? 1000 : 60;

describe("mutated inputs are read, or refused with an error of Heddle's", () => {
  test.each(targets)("$name", async (target) => {
    expect(await fuzz(target, inputs)).toEqual([]);
  });
});

describe("the engine finds", () => {
  const seeds = () => [Uint8Array.from({ length: 64 }, (_unused, index) => index)];
  test.each<[string, (input: Uint8Array) => unknown, RegExp]>([
    ["other errors", (input) => JSON.parse(new TextDecoder().decode(input)), /SyntaxError/],
    ["internal errors", () => Promise.reject(new HeddleError("internal", "a bug")), /an internal error/],
    ["memory that an input takes", () => new Uint8Array(2 ** 29).length, /it took/],
  ])("%s", async (name, parse, problem) => {
    expect((await fuzz({ name, seeds, parse }, 20)).map((one) => one.problem)).toEqual(
      expect.arrayContaining([expect.stringMatching(problem)]),
    );
  });
});
