/** Thousands of seeded runs in virtual time, with deaths, cut links and stalled workers at random. A failing seed fails the same way again. */
import { describe, expect, test } from "vitest";
import { type Scenario, simulate } from "./simulator.ts";

// HEDDLE_FUZZ_ROUNDS multiplies the seeds.
const rounds = Number(process.env["HEDDLE_FUZZ_ROUNDS"] ?? 1);
const scenarios: [string, number, Omit<Scenario, "seed">][] = [
  ["no fault", 20, { min: 1, max: 4, restarts: 3, steps: 40, deaths: 0, cuts: 0, stalls: 0 }],
  ["few deaths", 600, { min: 1, max: 4, restarts: 20, steps: 60, deaths: 0.01, cuts: 0, stalls: 0 }],
  ["many deaths", 600, { min: 2, max: 5, restarts: 40, steps: 60, deaths: 0.04, cuts: 0, stalls: 0 }],
  ["cut links", 400, { min: 1, max: 3, restarts: 60, steps: 40, deaths: 0, cuts: 0.03, stalls: 0 }],
  ["stalls", 400, { min: 1, max: 3, restarts: 60, steps: 40, deaths: 0, cuts: 0, stalls: 0.02 }],
  ["all at once", 600, { min: 2, max: 6, restarts: 60, steps: 50, deaths: 0.02, cuts: 0.02, stalls: 0.01 }],
  ["pairs", 600, { min: 2, max: 6, restarts: 60, unit: 2, steps: 50, deaths: 0.02, cuts: 0.01, stalls: 0 }],
  ["no replacement", 400, { min: 3, max: 6, restarts: 0, steps: 50, deaths: 0.01, cuts: 0, stalls: 0 }],
];

describe("elastic runs", () => {
  test.each(scenarios)("%s: every worker leaves every wait, and no step is skipped", (_name, count, scenario) => {
    const outcomes = Array.from({ length: rounds * count }, (_unused, seed) => simulate({ ...scenario, seed }));
    const finished = outcomes.filter(({ how }) => how === "finished").length;
    const reasons = new Set(outcomes.flatMap(({ reason }) => (reason === "" ? [] : [reason])));
    for (const reason of reasons)
      expect(reason).toMatch(
        /left, and the run needs|no worker is left|no restart is left|was lost after its training|the mesh needs/,
      );
    if (scenario.deaths + scenario.cuts + scenario.stalls === 0) expect(finished).toBe(rounds * count);
    else expect(Math.max(...outcomes.map(({ epochs }) => epochs))).toBeGreaterThan(1);
    expect(finished).toBeGreaterThan(0);
  });

  test("the same seed gives the same run", () => {
    const scenario = { seed: 7, min: 2, max: 6, restarts: 60, steps: 50, deaths: 0.02, cuts: 0.02, stalls: 0.01 };
    expect(simulate(scenario)).toEqual(simulate(scenario));
  });
});
