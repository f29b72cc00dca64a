/** Schedules as data: every maker gives every rank what it needs, and the simulation is that of the messages. */
import { describe, expect, test } from "vitest";
import {
  checkSchedule,
  chooseSchedule,
  hostsOf,
  printSchedule,
  rankedSchedules,
  type Schedule,
  scheduleNamed,
  simulate,
  synthesize,
  type Topology,
  uniform,
} from "../../src/schedules/index.ts";
import { makers } from "../../src/schedules/makers.ts";
import { scheduled } from "../../src/schedules/schedule.ts";

const link = { latency: 1e-5, bandwidth: 1e9 };
const sizes = [2, 3, 4, 5, 6, 7, 8, 9, 16];
const topologies = (ranks: number): Topology[] => [
  uniform(ranks, link),
  ...(ranks % 2 === 0 ? [hostsOf({ ranks: [ranks / 2, ranks / 2], within: link, between: link })] : []),
];

describe.each(makers.map(({ name, make }) => ({ name, make })))("$name", ({ make, name }) => {
  test("gives every rank what it needs, from and to every root", () => {
    let tried = 0;
    for (const collective of scheduled) {
      for (const ranks of sizes) {
        for (const topology of topologies(ranks)) {
          for (let root = 0; root < ranks; root++) {
            const parts = make({ collective, ranks, root }, topology);
            if (parts === undefined) continue;
            checkSchedule({ name, collective, ranks, root, ...parts });
            tried++;
          }
        }
      }
    }
    expect(tried).toBeGreaterThan(5);
  });
});

test("every collective has a schedule for every number of ranks", () => {
  for (const collective of scheduled)
    for (const ranks of [1, ...sizes])
      expect(
        rankedSchedules({ collective, ranks, root: ranks - 1 }, 1000, uniform(ranks, link)).length,
      ).toBeGreaterThan(0);
});

describe("a wrong schedule is refused, with the place", () => {
  const ring = scheduleNamed("ring", { collective: "allReduce", ranks: 3, root: 0 });
  const changed = (change: (messages: Schedule["messages"][number][]) => void): Schedule => {
    const messages = [...ring.messages];
    change(messages);
    return { ...ring, messages };
  };
  test.each<[string, Schedule, RegExp]>([
    ["a message less", changed((list) => list.pop()), /in the end rank 0 has 2 of 3 contributions to chunk 1$/m],
    ["a message twice", changed((list) => list.push({ ...(list[0] as (typeof list)[number]), round: 1 })), /twice/],
    [
      "a chunk that is replaced and combined in one round",
      {
        ...{ name: "ordered", collective: "allReduce", ranks: 3, root: 0, chunks: 1 },
        messages: [
          { round: 0, from: 0, to: 1, chunk: 0, combine: true },
          { round: 1, from: 2, to: 0, chunk: 0, combine: false },
          { round: 1, from: 1, to: 0, chunk: 0, combine: true },
          { round: 2, from: 0, to: 1, chunk: 0, combine: false },
          { round: 2, from: 0, to: 2, chunk: 0, combine: false },
        ],
      },
      /in round 1 rank 0 gets chunk 0 twice/,
    ],
    [
      "a round that is no number",
      changed((list) => list.push({ round: Number.NaN, from: 0, to: 1, chunk: 0, combine: false })),
      /no round NaN/,
    ],
    [
      "a rank that is not there",
      changed((list) => list.push({ round: 9, from: 0, to: 3, chunk: 0, combine: false })),
      /from 0 to 3/,
    ],
    [
      "a rank that sends to itself",
      changed((list) => list.push({ round: 9, from: 1, to: 1, chunk: 0, combine: false })),
      /from 1 to 1/,
    ],
    [
      "a chunk that the sender does not have",
      { ...ring, collective: "allGather", messages: [{ round: 0, from: 0, to: 1, chunk: 2, combine: false }] },
      /in round 0 rank 0 does not have chunk 2/,
    ],
    [
      "a combination in a move",
      { ...ring, collective: "allGather", messages: [{ round: 0, from: 0, to: 1, chunk: 0, combine: true }] },
      /in round 0 rank 1 has nothing to combine with chunk 0 from 0/,
    ],
  ])("%s", (_name, schedule, message) => {
    expect(() => checkSchedule(schedule)).toThrow(message);
  });
});

test("a schedule is printed by rounds and links", () => {
  expect(printSchedule(scheduleNamed("halvingDoubling", { collective: "allReduce", ranks: 4, root: 0 }))).toBe(
    [
      "halvingDoubling: allReduce of 4 ranks, 4 chunks",
      "round 0: 0→2 +2-3, 1→3 +2-3, 2→0 +0-1, 3→1 +0-1",
      "round 1: 0→1 +1, 1→0 +0, 2→3 +3, 3→2 +2",
      "round 2: 0→1 0, 1→0 1, 2→3 2, 3→2 3",
      "round 3: 0→2 0-1, 1→3 0-1, 2→0 2-3, 3→1 2-3",
    ].join("\n"),
  );
  expect(printSchedule(scheduleNamed("binomial", { collective: "broadcast", ranks: 5, root: 3 }))).toBe(
    [
      "binomial: broadcast of 5 ranks, 1 chunks, root 3",
      "round 0: 3→4 0",
      "round 1: 3→0 0, 4→1 0",
      "round 2: 3→2 0",
    ].join("\n"),
  );
});

describe("the simulation agrees with the formulas of the field", () => {
  const [ranks, bytes] = [8, 8e6];
  const seconds = (name: string): number =>
    simulate(scheduleNamed(name, { collective: "allReduce", ranks, root: 0 }), bytes, uniform(ranks, link)).seconds;
  test.each([
    ["ring", 14 * link.latency + (14 / 8) * (bytes / link.bandwidth)],
    ["halvingDoubling", 6 * link.latency + (14 / 8) * (bytes / link.bandwidth)],
    ["recursiveDoubling", 3 * (link.latency + bytes / link.bandwidth)],
    ["binomial", 6 * (link.latency + bytes / link.bandwidth)],
  ])("%s", (name, expected) => {
    expect(seconds(name)).toBeCloseTo(expected, 9);
  });
});

describe("the choice", () => {
  const task = { collective: "allReduce", ranks: 8, root: 0 } as const;
  test("is few rounds for small values, and few bytes for large ones", () => {
    expect(chooseSchedule(task, 64, uniform(8, link)).name).toBe("recursiveDoubling");
    expect(chooseSchedule(task, 64e6, uniform(8, link)).name).toBe("halvingDoubling");
    expect(chooseSchedule({ ...task, ranks: 6 }, 64e6, uniform(6, link)).name).toBe("ring");
  });
  test("sends a share over slow links between hosts", () => {
    const slow = hostsOf({
      ranks: [4, 4],
      within: { latency: 1e-6, bandwidth: 1e10 },
      between: { latency: 5e-5, bandwidth: 1e8 },
    });
    const ranked = rankedSchedules(task, 8e6, slow);
    expect(ranked[0]?.schedule.name).toBe("hierarchical");
    const ring = ranked.find(({ schedule }) => schedule.name === "ring");
    expect((ring?.seconds as number) / (ranked[0]?.seconds as number)).toBeGreaterThan(1.5);
  });
});

describe("a synthesized schedule", () => {
  const fast = { latency: 2e-6, bandwidth: 1e10 };
  const broken = (from: number, to: number) => Math.min(from, to) === 3 && Math.max(from, to) === 4;
  const shapes: readonly (readonly [string, Topology])[] = [
    [
      "two hosts with a slow link",
      hostsOf({ ranks: [4, 4], within: fast, between: { latency: 5e-5, bandwidth: 1e8 } }),
    ],
    [
      "a ring with a broken link",
      {
        hosts: [[0, 1, 2, 3, 4, 5, 6, 7]],
        link: (from, to) =>
          [1, 7].includes((to - from + 8) % 8) && !broken(from, to) ? { latency: 5e-6, bandwidth: 1e9 } : undefined,
      },
    ],
    [
      "a fat node and thin nodes",
      hostsOf({
        ranks: [4, 1, 1, 1, 1],
        within: fast,
        between: (from, to) => ({ latency: 3e-5, bandwidth: from === 0 || to === 0 ? 1e9 : 1e8 }),
      }),
    ],
  ];
  describe.each(shapes)("for %s", (_name, topology) => {
    test.each([1e6, 64e6])("is faster than ring and tree for %d bytes", (bytes) => {
      const task = { collective: "allReduce", ranks: 8, root: 0 } as const;
      const made = synthesize(task, bytes, topology);
      const seconds = (schedule: Schedule): number => simulate(schedule, bytes, topology).seconds;
      for (const name of ["ring", "binomial", "doubleTree"])
        expect(seconds(made)).toBeLessThan(seconds(scheduleNamed(name, task)));
    });

    test("gives every rank what it needs, for every collective and root", () => {
      for (const collective of scheduled)
        for (const root of ["broadcast", "reduce", "gather", "scatter"].includes(collective) ? [0, 3, 7] : [0])
          checkSchedule(synthesize({ collective, ranks: 8, root }, 1e5, topology));
    });
  });

  test("is refused where no links lead", () => {
    const apart: Topology = { hosts: [[0], [1]], link: () => undefined };
    expect(() => synthesize({ collective: "allGather", ranks: 2, root: 0 }, 8, apart)).toThrow(/no links lead/);
  });
});

test("limits, names and topologies that do not fit are refused", () => {
  const task = { collective: "allReduce", ranks: 256, root: 0 } as const;
  expect(scheduleNamed("halvingDoubling", task).messages.length).toBe(2 * 255 * 256);
  expect(() => scheduleNamed("ring", { ...task, ranks: 257 })).toThrow(/at most 256/);
  expect(() => synthesize({ ...task, ranks: 25 }, 1e6, uniform(25, link))).toThrow(/at most 24/);
  expect(() => chooseSchedule({ ...task, ranks: 8 }, 1e6, uniform(2, link))).toThrow(/not those below 8/);
});
