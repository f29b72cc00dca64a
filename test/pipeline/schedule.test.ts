import type { HeddleError } from "heddle";
import { describe, expect, it } from "vitest";
import {
  type Action,
  formatAction,
  gpipe,
  oneFOneB,
  parseAction,
  parseSchedule,
  printSchedule,
  type Schedule,
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
    for (const text of ["0F0", "12B345"]) expect(formatAction(parseAction(text))).toBe(text);
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
