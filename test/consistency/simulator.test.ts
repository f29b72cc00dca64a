/** Thousands of seeded trainings in virtual time, with the policies' real code. A failing seed fails the same way again. */
import { describe, expect, test } from "vitest";
import { type Bounds, check, type Scenario } from "./monitor.ts";

// HEDDLE_FUZZ_ROUNDS multiplies the seeds.
const rounds = Number(process.env["HEDDLE_FUZZ_ROUNDS"] ?? 1);
const policies: readonly [string, Bounds][] = [
  ["bsp", { lead: 0, inStep: true }],
  ["ssp:0", { lead: 0, ownWrites: true }],
  ["ssp:3", { lead: 3, ownWrites: true }],
  ["essp:3", { lead: 3, ownWrites: true }],
  ["async", { ownWrites: true }],
  ["adaptive-ssp:1:8", { lead: 8, ownWrites: true }],
  ["dssp:2:8", { lead: 8, ownWrites: true }],
  ["vap:1.5", { value: 1.5 }],
  ["backup:1", { inStep: true }],
  ["dynamic-backup", { inStep: true }],
  ["downpour:5:2", {}],
  ["downpour:2:5", {}],
  ["elastic-averaging:4:0.1", {}],
  ["dynsgd:3", { lead: 3 }],
  ["mixed:2:3", { lead: 3 }],
  ["bounded-delay:4", { lead: 4 }],
];

const run = (scenario: Omit<Scenario, "spec" | "bounds">, spec: string, bounds: Bounds, seeds: number): void => {
  for (let seed = 0; seed < seeds; seed++) check({ spec, bounds, ...scenario }, seed);
};

describe.each(policies)("%s", (spec, bounds) => {
  test("no fault", () => run({ kills: false, joins: false }, spec, bounds, rounds * 40));
  test("deaths and late joiners", () => run({ kills: true, joins: true }, spec, bounds, rounds * 120));
});

test("any policy takes over from any other", () => {
  for (const [first] of policies) {
    for (const [then, { lead, inStep }] of policies) {
      // What held before the change is checked above; the bounds of the second policy hold once all work under it.
      const bounds = { ...(lead !== undefined && { lead }), ...(inStep !== undefined && { inStep }) };
      run({ kills: true, joins: true, then }, first, bounds, rounds * 2);
    }
  }
});

test("the same seed gives the same run", () => {
  const scenario = { spec: "ssp:2", bounds: {}, kills: true, joins: true };
  expect(check(scenario, 7)).toBe(check(scenario, 7));
  expect(check(scenario, 7)).not.toBe(check(scenario, 8));
});

describe("the monitor sees", () => {
  test.each<[string, string, Bounds]>([
    ["a lead that is too long", "async", { lead: 1 }],
    ["a mixed step", "ssp:1", { inStep: true }],
    ["a value that is too great", "async", { value: 0.5 }],
  ])("%s", (_what, spec, bounds) => {
    expect(() => run({ kills: false, joins: false }, spec, bounds, 20)).toThrow(/seed/);
  });
});
