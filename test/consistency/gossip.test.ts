/** Training without a server: topologies beside their known spectra, mixes and averages beside what they promise. */
import {
  complete,
  exponential,
  fromEdges,
  NeighbourSteps,
  PairAverages,
  ring,
  simulateGossip,
  spectralGap,
  type Topology,
  torus,
} from "heddle/consistency";
import { describe, expect, test } from "vitest";
import { randomFrom } from "../support/tensors.ts";

const turn = (part: number, whole: number): number => Math.cos((2 * Math.PI * part) / whole);

describe("topologies", () => {
  test.each<[Topology, number]>([
    [ring(1), 1],
    [ring(3), 1],
    [ring(4), 2 / 3],
    [ring(16), 2 / 3 - (2 / 3) * turn(1, 16)],
    [ring(33), 2 / 3 - (2 / 3) * turn(1, 33)],
    [torus(4, 5), 1 - (3 + 2 * turn(1, 5)) / 5],
    [torus(6, 6), 1 - (3 + 2 * turn(1, 6)) / 5],
    [complete(7), 1],
    // Ying et al., "Exponential Graph is Provably Efficient for Decentralized Deep Training", 2021: 2 / (1 + log2 n).
    [exponential(8), 2 / 4],
    [exponential(32), 2 / 6],
    // A path of three: weights 2/3, 1/3 and eigenvalues 1, 2/3, 0.
    [
      fromEdges(3, [
        [0, 1],
        [1, 2],
      ]),
      1 / 3,
    ],
  ])("$name: spectral gap %f", (topology, gap) => {
    expect(spectralGap(topology)).toBeCloseTo(gap, 9);
  });

  test.each([ring(5), torus(3, 4), complete(6), exponential(12)])(
    "$name: a mix leaves the mean",
    ({ mixing, workers }) => {
      for (let worker = 0; worker < workers; worker++) {
        const row = [...(mixing[worker] as ReadonlyMap<number, number>).values()];
        expect(row.reduce((sum, weight) => sum + weight, 0)).toBeCloseTo(1, 12);
        expect(Math.min(...row)).toBeGreaterThanOrEqual(-1e-12);
        expect(mixing.reduce((sum, weights) => sum + (weights.get(worker) ?? 0), 0)).toBeCloseTo(1, 12);
      }
    },
  );

  test("edges that lead nowhere are errors", () => {
    expect(() => fromEdges(2, [[0, 2]])).toThrow(/the edge 0-2/);
    expect(() =>
      fromEdges(4, [
        [0, 1],
        [2, 3],
      ]),
    ).toThrow(/no path leads from worker 0 to worker 2/);
  });
});

/** Workers that each draw their parameters to a point of their own: all together to the mean of the points. */
function quadratic(topology: Topology, more: Partial<Parameters<typeof simulateGossip>[0]>) {
  const random = randomFrom(4);
  const points = Array.from({ length: topology.workers }, () =>
    Float64Array.from({ length: 3 }, () => random() * 4 - 2),
  );
  const mean = Float64Array.from({ length: 3 }, (_unused, index) =>
    points.reduce((sum, point) => sum + (point[index] as number) / points.length, 0),
  );
  const result = simulateGossip({
    kind: "d-psgd",
    topology,
    first: Float64Array.of(5, 5, 5),
    learningRate: 0.02,
    gradient: (params, worker) =>
      params.map((value, index) => value - ((points[worker] as Float64Array)[index] as number)),
    seconds: () => 0.5 + random(),
    delay: () => random() * 0.2,
    random,
    steps: 600,
    ...more,
  });
  const average = mean.map((_unused, index) =>
    result.params.reduce((sum, own) => sum + (own[index] as number) / points.length, 0),
  );
  const distance = Math.max(...average.map((value, index) => Math.abs(value - (mean[index] as number))));
  const spread = Math.max(
    ...result.params.flatMap((own) => [...own].map((value, index) => Math.abs(value - (average[index] as number)))),
  );
  return { ...result, distance, spread };
}

describe.each(["d-psgd", "ad-psgd"] as const)("%s", (kind) => {
  test.each([ring(8), torus(3, 3), exponential(8), complete(8)])(
    "$name: the mean is found, and workers agree",
    (topology) => {
      const { distance, spread, stuck, steps } = quadratic(topology, { kind });
      expect(stuck).toEqual([]);
      expect(new Set(steps)).toEqual(new Set([600]));
      // The last clocks mix without those that have finished. AD-PSGD counts the faster workers' gradients more often, so its mean lies a little beside.
      expect(distance).toBeLessThan(kind === "d-psgd" ? 0.01 : 0.25);
      expect(spread).toBeLessThan(0.6);
    },
  );

  test("deaths at any time: nobody waits for the dead", () => {
    for (let seed = 0; seed < 60; seed++) {
      const random = randomFrom(seed);
      const topology = [ring(8), torus(2, 4), exponential(8), complete(8)][seed % 4] as Topology;
      const deaths = new Map(
        [...Array(7).keys()].filter(() => random() < 0.5).map((worker) => [worker, random() * 40] as const),
      );
      const { stuck, steps } = quadratic(topology, { kind, deaths, steps: 30, random });
      expect(stuck).toEqual([]);
      for (const [worker, done] of steps.entries()) if (!deaths.has(worker)) expect(done).toBe(30);
    }
  });
});

test("d-psgd over all pairs is synchronous training with the mean gradient", () => {
  const { params } = quadratic(complete(4), { steps: 1, learningRate: 1, delay: () => 0 });
  // From equal parameters each worker's step leads to its own point.
  const again = quadratic(complete(4), { steps: 2, learningRate: 1, delay: () => 0 });
  const mean = [0, 1, 2].map((index) => params.reduce((sum, own) => sum + (own[index] as number) / 4, 0));
  for (const [worker, own] of again.params.entries())
    for (const [index, value] of own.entries()) {
      // The mix of all points, less the gradient at the worker's own point, which is 0.
      expect(value).toBeCloseTo(mean[index] as number, 12);
      expect(params[worker]?.[index]).not.toBeCloseTo(mean[index] as number, 3);
    }
});

test("a slow worker holds its neighbours in d-psgd, and nobody in ad-psgd", () => {
  const times = (["d-psgd", "ad-psgd"] as const).map((kind) => {
    const fast: number[] = [];
    simulateGossip({
      kind,
      topology: ring(6),
      first: Float64Array.of(0),
      learningRate: 0,
      gradient: (params) => params,
      seconds: (worker) => (worker === 0 ? 10 : 1),
      random: randomFrom(1),
      steps: 20,
      stepped: (_params, seconds) => fast.push(seconds) === 100,
    });
    return fast.at(-1) as number;
  });
  expect(times[0]).toBeGreaterThan(150);
  expect(times[1]).toBeLessThan(25);
});

describe("mistakes", () => {
  test.each<[string, () => unknown, RegExp]>([
    [
      "ready twice",
      () => {
        const steps = new NeighbourSteps(ring(3));
        steps.ready(0);
        steps.ready(0);
      },
      /worker 0 is ready, but it waits/,
    ],
    [
      "an average that is not there",
      () => new PairAverages(ring(3), () => 0).finish({ worker: 1, neighbour: 0 }),
      /averages nothing/,
    ],
    ["another kind", () => simulateGossip({ kind: "sgp" } as never), /kind must be/],
  ])("%s", (_what, act, expected) => {
    expect(act).toThrow(expected);
  });
});

test("no worker is in two averages", () => {
  for (let seed = 0; seed < 200; seed++) {
    const random = randomFrom(seed);
    const pairs = new PairAverages(torus(3, 3), random);
    const busy = new Set<number>();
    let open: ReturnType<PairAverages["ready"]> = [];
    const take = (begun: readonly (typeof open)[number][]): void => {
      for (const pair of begun) {
        for (const worker of [pair.worker, pair.neighbour as number]) {
          expect(busy.has(worker)).toBe(false);
          busy.add(worker);
        }
        open = [...open, pair];
      }
    };
    const waiting = new Set<number>();
    for (let event = 0; event < 60; event++) {
      const pair = open[Math.floor(random() * open.length)];
      if (pair !== undefined && random() < 0.5) {
        open = open.filter((other) => other !== pair);
        busy.delete(pair.worker);
        busy.delete(pair.neighbour as number);
        waiting.delete(pair.worker);
        take(pairs.finish(pair));
        continue;
      }
      const worker = Math.floor(random() * 9);
      if (waiting.has(worker)) continue;
      waiting.add(worker);
      take(pairs.ready(worker));
    }
  }
});
