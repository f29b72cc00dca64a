/** `heddle bench policies`: the order of policies that the papers report, in virtual time. */
import { createRequire } from "node:module";
import { expect, test } from "vitest";
import { formatRace } from "../../src/cli/bench-policies.ts";
import { lineChart } from "../../src/cli/line-chart.ts";
import { type RaceResult, race, type Stragglers } from "../../src/cli/policy-race.ts";

const run = (stragglers: Stragglers, policies: readonly string[]): Map<string, RaceResult> =>
  new Map(race({ policies, workers: 8, stragglers, seeds: 1, target: 0.02 }).map((one) => [one.policy, one]));
const of = (results: Map<string, RaceResult>, policy: string, figure: "seconds" | "samples" | "waiting"): number =>
  (results.get(policy) as RaceResult)[figure];

test("one slow worker: bsp waits for it; async and backup workers do not", () => {
  const results = run("slow", ["bsp", "backup:1", "async"]);
  expect(of(results, "backup:1", "seconds")).toBeLessThan(of(results, "bsp", "seconds") / 2);
  expect(of(results, "async", "seconds")).toBeLessThan(of(results, "bsp", "seconds") / 2);
  // Fresh gradients say more: the statistics' efficiency is bsp's.
  expect(of(results, "bsp", "samples")).toBeLessThan(of(results, "async", "samples"));
  expect(of(results, "bsp", "waiting")).toBeGreaterThan(0.5);
  expect(of(results, "async", "waiting")).toBeLessThan(0.1);
});

test("stragglers at random: staleness takes them up", () => {
  const results = run("random", ["bsp", "ssp:3", "async"]);
  expect(of(results, "ssp:3", "seconds")).toBeLessThan(of(results, "bsp", "seconds"));
  expect(of(results, "async", "seconds")).toBeLessThan(of(results, "ssp:3", "seconds"));
  expect(of(results, "ssp:3", "waiting")).toBeLessThan(of(results, "bsp", "waiting"));
  const table = formatRace([...results.values()]);
  expect(table.split("\n").map((line) => line.split(" ")[0])).toEqual(["policy", "async", "ssp:3", "bsp"]);
});

test("a policy that is not there, and a topology", () => {
  expect(() => run("none", ["spp:3"])).toThrow(/there is no policy 'spp'/);
  expect(() => run("none", ["d-psgd:star"])).toThrow(/there is no topology 'star'/);
});

const vegaIsHere = (() => {
  try {
    return createRequire(import.meta.url).resolve("vega") !== "";
  } catch {
    return false;
  }
})();

test.skipIf(!vegaIsHere)("a chart has a line for each policy", async () => {
  const lines = {
    bsp: [
      [0, 1],
      [1, 0.5],
      [2, 0.1],
    ] as const,
    async: [
      [0, 1],
      [3, 0.2],
    ] as const,
  };
  const svg = await lineChart({ title: "Loss <of> both", x: "seconds", y: "loss", lines });
  expect(svg).toMatch(/^<svg/);
  expect(svg).toContain("Loss &lt;of&gt; both");
  // Two lines, and their strokes in the legend.
  expect(svg.match(/d="M[^"]*L[^"]*"[^>]*stroke-width="1.5"|stroke-width="1.5"[^>]*d="M[^"]*L[^"]*"/g)).toHaveLength(4);
});
