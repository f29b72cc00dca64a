/** What the flight recorders of several ranks say together. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { parseEvents } from "../../src/launch/events.ts";
import { postMortem } from "../../src/launch/post-mortem.ts";
import { Lateness, type Ring, unfinished } from "../../src/launch/rings.ts";
import { waitingText } from "../../src/launch/stalls.ts";

type Entry = Ring["entries"][number];

/** The record of a rank: its collectives in the group `g` from 0, each with its start, and its end unless it runs. */
function ring(
  rank: number,
  times: readonly (readonly [started: number, finished?: number])[],
  more: Partial<Entry> = {},
): Ring {
  const entries = times.map(
    ([started, finished], sequence): Entry => ({
      group: "g",
      sequence,
      step: sequence + 1,
      description: "allReduce sum f32 x 4 'gradients 0'",
      started,
      failed: false,
      ...(finished === undefined ? {} : { finished }),
      ...more,
    }),
  );
  return { rank, size: 3, step: times.length, entries };
}

describe("a collective that is not finished", () => {
  test.each<[string, readonly Ring[], object[]]>([
    ["nothing is under way", [ring(0, [[1, 2]]), ring(1, [[1, 2]])], []],
    [
      "one rank has not come",
      [ring(0, [[1, 2], [5]]), ring(1, [[1, 2]]), ring(2, [[1, 2], [4]])],
      [{ waiting: [0, 2], missing: [1], since: 4, step: 2 }],
    ],
    [
      "two ranks have not come, of which one is further back",
      [
        ring(0, [[1, 2], [3, 4], [9]]),
        ring(1, [[1, 2]]),
        ring(2, [
          [1, 2],
          [3, 4],
        ]),
      ],
      [{ waiting: [0], missing: [1, 2], since: 9, step: 3 }],
    ],
    [
      "all have come",
      [ring(0, [[1]]), ring(1, [[2]]), ring(2, [[3]])],
      [{ waiting: [0, 1, 2], missing: [], since: 1 }],
    ],
    [
      "a rank that never was in the group",
      [ring(0, [[1]]), ring(1, [[2]]), ring(2, [])],
      [{ waiting: [0, 1], missing: [2], since: 1 }],
    ],
    [
      "a rank of another group waits there: it is not missing here",
      [ring(0, [[1]]), ring(1, [[2]]), ring(2, [[0]], { group: "other" })],
      [
        { waiting: [2], missing: [], since: 0 },
        { waiting: [0, 1], missing: [], since: 1 },
      ],
    ],
  ])("%s", (_what, rings, found) => {
    expect(unfinished(rings)).toMatchObject(found);
    expect(unfinished(rings)).toHaveLength(found.length);
  });

  test("after the end, those that failed count as well", () => {
    const rings = [ring(0, [[1, 9]], { failed: true }), ring(1, [])];
    expect(unfinished(rings)).toEqual([]);
    expect(unfinished(rings, true)).toMatchObject([{ waiting: [0], missing: [1] }]);
  });

  test("in words", () => {
    const [first] = unfinished([ring(0, [[1, 2], [5]]), ring(1, [[1, 2]]), ring(2, [[1, 2], [4]])]);
    if (first === undefined) throw new Error("nothing was found");
    const collective = "allReduce sum f32 x 4 'gradients 0'";
    expect(waitingText(first, [1], 10_400, [])).toBe(`rank 1 has not come to ${collective} for 10 s; ranks 0, 2 wait`);
    expect(waitingText(first, [], 10_400, [])).toBe(`all ranks have been in ${collective} for 10 s`);
  });
});

describe("the rank that comes last", () => {
  test("its delays, as a share of the time, counted once", () => {
    const steps = Array.from({ length: 20 }, (_unused, step) => 100 * step);
    const rings = [0, 1, 2].map((rank) =>
      ring(
        rank,
        steps.map((at) => [at + (rank === 1 ? 70 : rank), at + 80] as const),
      ),
    );
    const lateness = new Lateness();
    expect(lateness.slowest).toBeUndefined();
    for (let round = 0; round < 3; round++) lateness.add(rings);
    const { rank, share } = lateness.slowest ?? { rank: -1, share: 0 };
    expect(rank).toBe(1);
    // 68 of 100 ms, of 19 whole intervals and a part.
    expect(share).toBeCloseTo((20 * 68) / (19 * 100 + 68), 10);
    lateness.restart();
    lateness.add(rings);
    expect(lateness.slowest).toBeUndefined();
  });

  test("collectives that a record does not reach back to are left out", () => {
    const lateness = new Lateness();
    const [long, short] = [
      ring(0, [
        [0, 1],
        [100, 101],
        [200, 201],
      ]),
      ring(1, [
        [0, 1],
        [150, 151],
        [205, 206],
      ]),
    ];
    lateness.add([long, { ...short, entries: short.entries.slice(2) }]);
    expect(lateness.slowest?.rank).toBe(1);
    expect(lateness.slowest?.share).toBe(1);
  });
});

describe("heddle doctor", () => {
  const folderOf = (lines: readonly object[]): string => {
    const folder = mkdtempSync(join(tmpdir(), "heddle-doctor-"));
    writeFileSync(
      join(folder, "events.jsonl"),
      `${lines.map((line) => JSON.stringify(line)).join("\n")}\n{"at": 9, "ev`,
    );
    return folder;
  };

  test.each<[string, readonly object[], RegExp]>([
    [
      "a run that ended well",
      [
        { at: 0, event: "start" },
        { at: 1500, event: "end", status: 0 },
      ],
      /^The run ended well, 1\.5 s after its start\.$/,
    ],
    [
      "a failure",
      [
        { at: 0, event: "start" },
        { at: 900, event: "failure", text: "rank 1 was killed by SIGKILL" },
        { at: 1000, event: "end" },
      ],
      /^Rank 1 was killed by SIGKILL, 1\.0 s after its start\.$/,
    ],
    [
      "a signal",
      [
        { at: 0, event: "start" },
        { at: 1000, event: "end", stoppedBy: "SIGINT" },
      ],
      /^The run was stopped by SIGINT, 1\.0 s/,
    ],
    [
      "a launcher that was killed",
      [
        { at: 0, event: "start" },
        { at: 70, event: "worker" },
      ],
      /^The launcher ended, or still runs, without a record of the end, 0\.1 s/,
    ],
  ])("%s, without records of ranks", (_what, lines, says) => {
    const folder = folderOf(lines);
    const { sentences } = postMortem(folder);
    rmSync(folder, { recursive: true });
    expect(sentences).toHaveLength(3);
    expect(sentences[0]).toMatch(says);
    expect(sentences[1]).toMatch(/^There are no records of collectives/);
  });

  test("a folder that is none is refused; malformed lines are left out", () => {
    expect(() => postMortem(tmpdir())).toThrow(/is not the folder of a run/);
    expect(parseEvents('{"at":1,"event":"start"}\nnonsense\n{"at":"x","event":"end"}\nnull')).toEqual([
      { at: 1, event: "start" },
    ]);
  });
});
