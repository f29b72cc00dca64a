/** Which checkpoints are kept. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { train } from "heddle";
import { afterAll, describe, expect, test } from "vitest";
import { listCheckpoints, loadCheckpoint } from "../../src/checkpoints/index.ts";
import { type Aged, type Retention, superfluous } from "../../src/checkpoints/retention.ts";
import { bars, options } from "../train/synthetic.ts";

const root = mkdtempSync(join(tmpdir(), "heddle-retention-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

/** Checkpoints of steps 1, 2, …, newest first: the hour in which each was written, and its number. */
const checkpoints = (hours: number[], values: (number | undefined)[] = []): Aged[] =>
  hours
    .map((hour, index): Aged => {
      const step = index + 1;
      return { step, path: `/${step}`, name: `${step}`, inParts: false, time: hour * 3_600_000, value: values[index] };
    })
    .reverse();

const small = (count: number): Retention["best"] => ({ count, valueOf: () => undefined, better: (a, b) => a < b });

test.each<[string, Aged[], Retention, number[]]>([
  ["the newest", checkpoints([0, 0, 0, 0]), { newest: 2 }, [4, 3]],
  ["all", checkpoints([0, 0, 0]), { newest: Infinity }, [3, 2, 1]],
  ["the first of each period", checkpoints([0, 1, 5, 6, 7, 9]), { newest: 1, hours: 6 }, [6, 4, 1]],
  ["periods of parts of an hour", checkpoints([0, 0.4, 0.6, 2]), { newest: 1, hours: 0.5 }, [4, 3, 1]],
  ["the best", checkpoints([0, 0, 0, 0], [3, 1, 2, 9]), { newest: 1, best: small(2) }, [4, 3, 2]],
  ["the newest of equals", checkpoints([0, 0, 0], [1, 1, 5]), { newest: 1, best: small(1) }, [3, 2]],
  ["none that has no number", checkpoints([0, 0, 0], [Number.NaN, undefined, 5]), { newest: 1, best: small(3) }, [3]],
  ["what any rule keeps", checkpoints([0, 1, 9, 9], [1, 2, 3, 4]), { newest: 1, hours: 5, best: small(1) }, [4, 3, 1]],
])("keeps %s", (_name, all, retention, kept) => {
  const removed = new Set(superfluous(all, retention));
  expect(all.filter((one) => !removed.has(one)).map(({ step }) => step)).toEqual(kept);
});

describe("a training", () => {
  test.each(["file", "parts"] as const)("keeps its best epoch beside the newest, in %s", async (format) => {
    const directory = join(root, format);
    const { history } = await train(
      options({
        epochs: 5,
        evaluate: bars(20, { seed: 4 }),
        checkpoint: {
          directory,
          every: "epoch",
          keep: 1,
          keepBest: { count: 1, monitor: "loss", mode: "max" },
          format,
        },
      }),
    );
    // With "max" the worst loss, which is not that of the last epoch.
    const worst = history.reduce((best, record) => (record.loss > best.loss ? record : best));
    expect(worst.epoch).toBeLessThan(5);
    const left = await listCheckpoints(directory);
    expect(left.map(({ step }) => step)).toEqual([history.at(-1)?.steps, worst.steps]);
    for (const { path, step } of left) expect((await loadCheckpoint(path)).step).toBe(step);
  });

  test.each<[object, string]>([
    [{ keepHours: 0 }, "checkpoint.keepHours must be finite and above 0"],
    [{ keepBest: 0 }, "checkpoint.keepBest must be at least 1"],
    [{ keepBest: { count: 1, metric: "loss" } }, "checkpoint.keepBest: unknown option 'metric'"],
    [{ keepBest: { monitor: "none" } }, "monitor 'none' is not a number of this training"],
    [{ format: "folder" }, "checkpoint.format must be auto or file or parts"],
  ])("refuses %o", async (more, message) => {
    await expect(train(options({ epochs: 1, checkpoint: { directory: root, ...more } as never }))).rejects.toThrow(
      message,
    );
  });
});
