import type { HeddleError } from "heddle";
import { describe, expect, it } from "vitest";
import {
  interleaved,
  pipedream,
  pipedreamVertical,
  registerPipelineSchedule,
  twoBuffered,
  zeroBubbleH1,
  zeroBubbleH2,
} from "../../src/pipelines/index.ts";
import {
  type Action,
  formatAction,
  gpipe,
  oneFOneB,
  parseAction,
  parseSchedule,
  printSchedule,
  type Schedule,
  schedules,
  simulate,
} from "../../src/plan/index.ts";

/** A schedule from words: one text per rank. */
const schedule = (stages: number, microBatches: number, ...ranks: readonly string[]): Schedule => ({
  name: "by hand",
  stages,
  microBatches,
  ranks: ranks.map((row) => row.split(" ").map(parseAction)),
});

const messageOf = (run: () => unknown): string => {
  try {
    run();
  } catch (error) {
    return (error as HeddleError).plain;
  }
  return "no error";
};

const grids: { readonly [name: string]: readonly [Schedule, string] } = {
  gpipe: [
    gpipe(2, 4),
    `schedule gpipe stages=2 microBatches=4
time    0   1   2   3   4   5   6 7   8 9   10 11  12 13  14
rank 0  0F0 0F1 0F2 0F3 .   .   . 0B0 = 0B1 =  0B2 =  0B3 =
rank 1  .   1F0 1F1 1F2 1F3 1B0 = 1B1 = 1B2 =  1B3 =  .   .
`,
  ],
  "1f1b": [
    oneFOneB(2, 4),
    `schedule 1f1b stages=2 microBatches=4
time    0   1   2   3 4   5   6   7   8   9   10  11  12 13  14
rank 0  0F0 0F1 .   . 0B0 =   0F2 0B1 =   0F3 0B2 =   .  0B3 =
rank 1  .   1F0 1B0 = 1F1 1B1 =   1F2 1B2 =   1F3 1B3 =  .   .
`,
  ],
  "zb-h1": [
    zeroBubbleH1(3, 4),
    `schedule zb-h1 stages=3 microBatches=4
time    0   1   2   3   4   5   6   7   8   9   10  11  12  13
rank 0  0F0 0F1 0F2 .   .   0B0 0W0 0F3 0B1 0W1 0B2 0W2 0B3 0W3
rank 1  .   1F0 1F1 .   1B0 1F2 1B1 1W0 1F3 1B2 1W1 1B3 1W2 1W3
rank 2  .   .   2F0 2B0 2F1 2B1 2F2 2B2 2W0 2F3 2B3 2W1 2W2 2W3
`,
  ],
  "zb-h2": [
    zeroBubbleH2(2, 4),
    `schedule zb-h2 stages=2 microBatches=4
time    0   1   2   3   4   5   6   7   8   9   10  11  12
rank 0  0F0 0F1 0F2 0B0 0W0 0F3 0B1 0W1 0B2 0W2 0B3 0W3 .
rank 1  .   1F0 1B0 1F1 1B1 1F2 1B2 1W0 1F3 1B3 1W1 1W2 1W3
`,
  ],
  pipedream: [
    pipedream(2, 2),
    `schedule pipedream stages=2 microBatches=2
time    0   1   2   3 4   5   6   7 8   9 10
rank 0  0F0 0F1 .   . 0B0 =   0U0 . 0B1 = 0U1
rank 1  .   1F0 1B0 = 1U0 1F1 1B1 = 1U1 . .
`,
  ],
  "pipedream-2bw": [
    twoBuffered()(2, 4),
    `schedule pipedream-2bw stages=2 microBatches=4 delay=1
time    0   1   2   3 4   5   6   7   8   9   10  11  12  13 14  15 16
rank 0  0F0 0F1 .   . 0B0 =   0F2 0B1 =   0U1 0F3 0B2 =   .  0B3 =  0U3
rank 1  .   1F0 1B0 = 1F1 1B1 =   1U1 1F2 1B2 =   1F3 1B3 =  1U3 .  .
`,
  ],
  interleaved: [
    interleaved(4, 2, 2),
    `schedule interleaved stages=4 microBatches=2
time    0   1   2   3   4   5 6   7   8 9   10 11  12 13  14
rank 0  0F0 0F1 2F0 2F1 .   . 2B0 =   . 2B1 =  0B0 =  0B1 =
rank 1  .   1F0 1F1 3F0 3B0 = 3F1 3B1 = 1B0 =  1B1 =  .   .
`,
  ],
  "two stages on one rank": [
    schedule(3, 1, "0F0 2F0 2B0 0B0", "1F0 1B0"),
    `schedule by-hand stages=3 microBatches=1
time    0   1   2   3   4 5   6 7   8
rank 0  0F0 .   2F0 2B0 = .   . 0B0 =
rank 1  .   1F0 .   .   . 1B0 = .   .
`,
  ],
};

describe("schedules as text", () => {
  it.each(Object.keys(grids))("prints %s as a grid and reads it back", (name) => {
    const [made, text] = grids[name] as (typeof grids)[string];
    const named = { ...made, name: made.name.replace(" ", "-") };
    expect(printSchedule(named)).toBe(text);
    expect(parseSchedule(text)).toEqual(named);
  });

  it("reads actions back, and nothing else", () => {
    for (const text of ["0F0", "12B345", "3W1"]) expect(formatAction(parseAction(text))).toBe(text);
    for (const text of ["F0", "0F", "0G0", "-1F0", "0f0"]) expect(() => parseAction(text)).toThrow("is not an action");
  });

  it.each([
    "",
    "schedule x",
    "schedule x stages=2 microBatches=2\nrank 1  0F0",
    "schedule x stages=1 microBatches=1\nrank 0 what",
  ])("refuses %j", (text) => {
    expect(() => parseSchedule(text)).toThrow(/schedule|rank|action/);
  });
});

describe("a simulation", () => {
  const sizes = [
    [1, 1],
    [2, 3],
    [4, 4],
    [4, 8],
    [4, 16],
    [8, 32],
    [4, 2],
  ] as const;

  it.each(sizes)("gives the known bubble and memory, %i stages and %i micro-batches", (p, m) => {
    for (const make of [gpipe, oneFOneB]) {
      const { time, bubble, peakLive } = simulate(make(p, m));
      expect(time).toBe(3 * (m + p - 1));
      expect(bubble).toBeCloseTo((p - 1) / (m + p - 1), 12);
      const kept = Array.from({ length: p }, (_unused, rank) => (make === gpipe ? m : Math.min(m, p - rank)));
      expect(peakLive).toEqual(kept);
    }
  });

  it.each(sizes.filter(([p, m]) => m >= p))(
    "of backward passes in two parts: %i stages and %i micro-batches",
    (p, m) => {
      const [first, second] = [simulate(zeroBubbleH1(p, m)), simulate(zeroBubbleH2(p, m))];
      // A third of the idle time of 1f1b; at most as much kept as on its rank 0.
      expect(first.time).toBe(3 * m + p - 1);
      expect(first.bubble).toBeCloseTo((p - 1) / (3 * m + p - 1), 12);
      expect(Math.max(...first.peakLive)).toBeLessThanOrEqual(p);
      expect(Math.max(...second.peakLive)).toBeLessThanOrEqual(2 * p - 1);
      if (m < 2 * p - 1) return;
      // No rank waits between its first and its last action.
      for (const [rank, actions] of second.ranks.entries())
        expect([actions[0]?.start, actions.at(-1)?.end]).toEqual([rank, 3 * m + rank]);
    },
  );

  it.each([
    [2, 2, 4],
    [2, 4, 8],
    [4, 2, 8],
    [4, 3, 16],
    [8, 4, 32],
  ])("of several stages on each rank: %i ranks with %i stages each, %i micro-batches", (p, v, m) => {
    const { time, bubble, peakLive } = simulate(interleaved(p * v, m, p));
    expect(time).toBe(3 * (v * m + p - 1));
    expect(bubble).toBeCloseTo((p - 1) / (v * m + p - 1), 12);
    expect(peakLive).toEqual(
      Array.from({ length: p }, (_unused, rank) => Math.min(m * v, 2 * (p - rank - 1) + (v - 1) * p + 1)),
    );
  });

  it("of any sizes runs: every schedule brought, also with fewer micro-batches than ranks, and groups that are not full", () => {
    for (const p of [1, 2, 3, 5])
      for (const m of [1, 2, 3, 4, 7, 11]) {
        for (const make of [zeroBubbleH1, zeroBubbleH2, pipedream, pipedreamVertical, twoBuffered()])
          expect(simulate(make(p, m)).time).toBeGreaterThan(0);
        for (const v of [1, 2, 3]) expect(simulate(interleaved(p * v, m, p)).time).toBeGreaterThan(0);
      }
  });

  it("does not wait between the updates of a step, with two versions", () => {
    const costs = { F: 1, B: 2, U: 0 };
    for (const [p, each, updates] of [
      [2, 2, 8],
      [4, 4, 4],
      [4, 8, 3],
    ] as const) {
      const together = simulate(twoBuffered(each)(p, each * updates), costs);
      expect(together.time).toBe(simulate(oneFOneB(p, each * updates), costs).time);
      expect(together.time).toBe(updates * simulate(oneFOneB(p, each), costs).time - 3 * (updates - 1) * (p - 1));
    }
  });

  it("counts the part by weights as a half of a backward pass, or as it is told", () => {
    const time = (costs?: Parameters<typeof simulate>[1]): number => simulate(zeroBubbleH1(1, 1), costs).time;
    expect([time(), time({ F: 1, B: 4 }), time({ F: 1, B: [4], W: [3] })]).toEqual([3, 5, 5]);
    const { ranks } = simulate(zeroBubbleH1(1, 1), { F: 1, B: 4, W: 3 });
    expect(ranks[0]?.map(({ start, end }) => end - start)).toEqual([1, 1, 3]);
  });

  it("counts the time of each stage, and what sending takes", () => {
    const { ranks, time } = simulate(gpipe(2, 1), { F: [1, 5], B: [2, 3], transfer: 10 });
    expect(ranks.flat().map(({ start, end }) => [start, end])).toEqual([
      [0, 1],
      [29, 31],
      [11, 16],
      [16, 19],
    ]);
    expect(time).toBe(31);
  });
});

const [first, second] = oneFOneB(2, 2).ranks.map((row) => row.map(formatAction).join(" ")) as [string, string];

const wrong: { readonly [what: string]: readonly [Schedule, string] } = {
  "a missing action": [
    schedule(2, 2, first.replace("0F0 ", ""), second),
    `schedule 'by hand': 0F0 is missing
time    0   1     2   3
rank 0  0F1 >0B0< 0B1 .
rank 1  1F0 1B0   1F1 1B1`,
  ],
  "an action that is present twice": [
    schedule(2, 2, first, `${second} 1F0`),
    `schedule 'by hand': 1F0 is present twice (again as action 4 of rank 1)
time    0   1   2   3   4
rank 0  0F0 0F1 0B0 0B1 .
rank 1  1F0 1B0 1F1 1B1 >1F0<`,
  ],
  "an action before what it needs": [
    schedule(2, 2, "0B0 0F0 0F1 0B1", second),
    `schedule 'by hand': 0B0 needs 0F0, which comes later on rank 0
time    0     1   2   3
rank 0  >0B0< 0F0 0F1 0B1
rank 1  1F0   1B0 1F1 1B1`,
  ],
  "ranks that wait for each other": [
    schedule(2, 2, "0F0 0B0 0F1 0B1", "1F0 1F1 1B0 1B1"),
    `schedule 'by hand': deadlock: rank 0 at 0B0 waits for 1B0, rank 1 at 1F1 waits for 0F1
time    0   1     2   3
rank 0  0F0 >0B0< 0F1 0B1
rank 1  1F0 >1F1< 1B0 1B1`,
  ],
  "a part of a backward pass before the part that it needs": [
    schedule(1, 1, "0F0 0W0 0B0"),
    `schedule 'by hand': 0W0 needs 0B0, which comes later on rank 0
time    0   1     2
rank 0  0F0 >0W0< 0B0`,
  ],
  "only some backward passes in two parts": [
    schedule(1, 2, "0F0 0B0 0W0 0F1 0B1"),
    `schedule 'by hand': 0W1 is missing
time    0   1   2   3     4
rank 0  0F0 0B0 0W0 >0F1< >0B1<`,
  ],
  "a stage on two ranks": [
    schedule(2, 1, "0F0 1B0", "1F0 0B0"),
    `schedule 'by hand': 1F0 is on rank 1, other actions of stage 1 on rank 0
time    0     1
rank 0  0F0   1B0
rank 1  >1F0< 0B0`,
  ],
  "an action of no stage": [
    schedule(1, 1, "0F0 0B0 7F0"),
    `schedule 'by hand': 7F0 is not among 1 stages and 1 micro-batches
time    0   1   2
rank 0  0F0 0B0 >7F0<`,
  ],
};

describe("a schedule that cannot run", () => {
  it.each(Object.keys(wrong))("is refused with the cell marked: %s", (what) => {
    const [made, message] = wrong[what] as (typeof wrong)[string];
    expect(messageOf(() => simulate(made))).toBe(message);
  });

  it("is refused by its maker: stages that are not equally many on each rank", () => {
    expect(messageOf(() => interleaved(5, 4, 2))).toBe(
      "schedule 'interleaved': 2 ranks cannot have equally many of 5 stages",
    );
  });

  it("is found whichever action is taken away, given twice or moved to the front", () => {
    const whole = oneFOneB(3, 3);
    const changes: readonly ((row: Action[], index: number) => void)[] = [
      (row, index) => row.splice(index, 1),
      (row, index) => row.push(row[index] as Action),
      (row, index) => {
        const [moved] = row.splice(index, 1);
        row.unshift(moved as Action);
      },
    ];
    changes.forEach((change, kind) => {
      whole.ranks.forEach((actions, rank) => {
        actions.forEach((action, index) => {
          const ranks = whole.ranks.map((row) => [...row]);
          change(ranks[rank] as Action[], index);
          // Forward passes may be exchanged where nothing waits for them in turn.
          if (kind === 2 && action.kind === "F") return;
          expect(messageOf(() => simulate({ ...whole, ranks }))).toContain(">");
        });
      });
    });
  });
});

describe("a schedule of one's own", () => {
  it("is registered by its name", () => {
    registerPipelineSchedule("twice", (stages, microBatches) => ({ ...gpipe(stages, microBatches), name: "twice" }));
    expect(schedules.get("twice")?.(2, 2)).toEqual({ ...gpipe(2, 2), name: "twice" });
  });

  it.each([
    ["1f1b", oneFOneB, /there is a schedule '1f1b' already/],
    ["two words", oneFOneB, /takes a name without spaces and a function, got "two words"/],
    ["mine", 3, /a function, got "mine" and 3/],
  ])("is refused: %s", (name, make, message) => {
    expect(() => registerPipelineSchedule(name, make as never)).toThrow(message);
  });
});
