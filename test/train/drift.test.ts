/** Ranks that drift apart, and copies of values that differ: who, what and since when. */
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { loadNative } from "../../src/executors/native/binding.ts";
import { differing, digestOf, StepRecords } from "../../src/train/drift.ts";
import { heddle, started, withoutSpeed } from "../cli/heddle-process.ts";

const script = fileURLToPath(new URL("./scripts/drift.ts", import.meta.url));
const native = !("error" in loadNative());

async function run(workers: number, settings: object): Promise<{ status: number | null; text: string }> {
  const args = ["run", script, "--workers", String(workers), "--threads", "1", "--", JSON.stringify(settings)];
  const { status, stdout, stderr } = await started(args).ended;
  return { status, text: stdout + stderr };
}

describe.skipIf(!native)("by real processes", { timeout: 120_000 }, () => {
  test.each<[string, number, object, RegExp]>([
    [
      "a learning rate that is scaled on one of three ranks",
      3,
      { odd: "scale" },
      /rank 2 trains otherwise than the other ranks since step [67]: learning rate 0\.1 instead of 0\.05/,
    ],
    [
      "a schedule that differs at one step, of two ranks",
      2,
      { odd: "schedule" },
      /ranks 0, 1 train otherwise since step 6:\n +rank 0: learning rate 0\.05\n +rank 1: learning rate 0\.07/,
    ],
    [
      "the same on a mesh of two axes",
      4,
      { odd: "schedule", axes: { data: 2, model: 2 }, layout: "dense" },
      /rank 3 trains otherwise than the other ranks since step 6: learning rate 0\.07 instead of 0\.05/,
    ],
    [
      "the same in a pipeline",
      2,
      { odd: "schedule", pipeline: true },
      /ranks 0, 1 train otherwise since step 6:\n +rank 0: learning rate 0\.05\n +rank 1: learning rate 0\.07/,
    ],
    [
      "values that one rank restores",
      2,
      { odd: "restore" },
      /ranks 0, 1 train otherwise since step [67]:\n +rank 0: number of restored snapshots 0\n +rank 1: number of restored snapshots 1/,
    ],
    [
      "a bit that flips in the memory of one of three ranks",
      3,
      { odd: "flip" },
      /rank 2 has another copy of parameter '4\.weight' than the other ranks, since a step from \d+ to \d+/,
    ],
    [
      "the same, of a value that is split over two of four ranks",
      4,
      { odd: "flip", axes: { data: 2, model: 2 }, layout: "dense" },
      /ranks 1, 3 have different copies of parameter '4\.weight', since a step from \d+ to \d+/,
    ],
  ])("%s", async (_what, workers, settings, says) => {
    const { status, text } = await run(workers, settings);
    expect(text).toMatch(says);
    expect(status).toBe(1);
  });

  test("ranks that do the same are left alone; copies are not compared where that is switched off", async () => {
    for (const settings of [{}, { odd: "flip", every: false }]) {
      const { status, text } = await run(2, settings);
      // A rank that searches its memory is told to be slow.
      expect(withoutSpeed(text)).toBe("trained 16 steps\n");
      expect(status).toBe(0);
    }
  });
});

test.skipIf(!native)(
  "a batch that is left out is told, and written down with epochs and plan in the folder of the run",
  async () => {
    const project = mkdtempSync(join(tmpdir(), "heddle-left-out-"));
    try {
      writeFileSync(join(project, "package.json"), "{}");
      const file = fileURLToPath(new URL("./scripts/left-out.ts", import.meta.url));
      const { status, stdout } = heddle(["run", file, "--workers", "2"], {}, project);
      expect(stdout).toMatch(
        /the loss is NaN at step 4 \(epoch 1 of 1, batch 4\): back to the values after 2 steps, without the batch: rows 24, 25, .* of the data/,
      );
      expect(stdout).toContain("trained 7 steps");
      expect(status).toBe(0);
      const [name] = readdirSync(join(project, ".heddle", "runs"));
      const read = (what: string): string =>
        readFileSync(join(project, ".heddle", "runs", name as string, what), "utf8");
      const rows = [24, 25, 26, 27, 28, 29, 30, 31];
      expect(JSON.parse(read("left-out.jsonl"))).toEqual({ step: 4, epoch: 1, batch: 4, loss: "NaN", backTo: 2, rows });
      expect(JSON.parse(read("metrics.jsonl"))).toMatchObject({ epoch: 1, steps: 7 });
      expect(read("plan.txt")).toMatch(/^plan /);
    } finally {
      rmSync(project, { recursive: true });
    }
  },
);

test("the shares of equal steps add up to 0, those of different steps to something else", () => {
  const takes = { "learning rate": [0.1], epoch: 1, batch: 1, rows: 8, "number of restored snapshots": 0 };
  for (const ranks of [2, 3, 64, 1024]) {
    let missed = 0;
    for (let step = 1; step <= 200; step++) {
      const [same, other] = [new StepRecords(), new StepRecords()];
      same.add(step, takes);
      other.add(step, { ...takes, "learning rate": [0.1 + Number.EPSILON] });
      const odd = step % ranks;
      // As f32 adds them up.
      const sum = (of: (rank: number) => StepRecords): number => {
        let total = 0;
        for (let rank = 0; rank < ranks; rank++) total = Math.fround(total + of(rank).share(rank, ranks));
        return total;
      };
      expect(sum(() => same)).toBe(0);
      if (sum((rank) => (rank === odd ? other : same)) === 0) missed++;
    }
    // A digest of 12 bits is the same by chance in one of 4096 steps.
    expect(missed).toBeLessThanOrEqual(2);
  }
});

test("a digest sees every single bit", () => {
  const words = Uint32Array.from({ length: 100 }, (_unused, index) => Math.imul(index, 0x9e3779b1));
  const digest = digestOf(words);
  for (let bit = 0; bit < 3200; bit++) {
    const changed = words.slice();
    changed[bit >> 5] = ((changed[bit >> 5] as number) ^ (1 << (bit & 31))) >>> 0;
    expect(digestOf(changed)).not.toBe(digest);
  }
});

test.each([
  [["a", "a", "b"], "rank 2 trains otherwise than the other ranks since step 3: rate b instead of a"],
  [["a", "b", "a", "c", "a"], "ranks 1, 3 train otherwise than the other ranks since step 3: rate b, c instead of a"],
  [["a", "b"], "ranks 0, 1 train otherwise since step 3:\n  rank 0: rate a\n  rank 1: rate b"],
])("%j", (values, says) => {
  expect(differing(values, "train otherwise", "since step 3", "rate")).toBe(says);
});
