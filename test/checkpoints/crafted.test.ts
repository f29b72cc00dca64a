/** Checkpoints whose hashes are right and whose content is not: nothing runs for ever, nothing ends in JavaScript's own words. */
import { mkdtempSync, renameSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { train } from "heddle";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Checkpoint, listCheckpoints, loadCheckpoint, saveCheckpoint } from "../../src/checkpoints/index.ts";
import { HeddleError } from "../../src/util/errors.ts";
import { options } from "../train/synthetic.ts";

const root = mkdtempSync(join(tmpdir(), "heddle-crafted-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

let older: Checkpoint;
let newer: Checkpoint;
const given = (directory: string) => options({ epochs: 2, checkpoint: { directory } });
beforeAll(async () => {
  const directory = join(root, "whole");
  await train(given(directory));
  const [last, first] = await listCheckpoints(directory);
  older = await loadCheckpoint(first?.path as string);
  newer = await loadCheckpoint(last?.path as string);
});

type Change = (checkpoint: Checkpoint) => object;
const extra =
  (change: (extra: Record<string, unknown>) => object): Change =>
  (checkpoint) => ({ extra: { ...checkpoint.extra, ...change(checkpoint.extra) } });

const changes: [string, Change][] = [
  ["a batch beyond the epoch", ({ position }) => ({ position: { ...position, step: 1_000_000 } })],
  ["no tally", extra(() => ({ tally: null }))],
  ["an empty tally", extra(() => ({ tally: {} }))],
  ["sums that are none", extra(() => ({ tally: { loss: 1, examples: 1, rejected: 0, sums: { accuracy: null } } }))],
  [
    "sums that are text",
    extra(() => ({ tally: { loss: 1, examples: 1, rejected: 0, sums: { accuracy: { sums: ["1"], count: 1 } } } })),
  ],
  ["a history of null", extra(() => ({ history: [null] }))],
  ["a history of an empty record", extra(() => ({ history: [{}] }))],
  [
    "a history of negative epochs",
    extra(({ history }) => ({ history: (history as object[]).map((one) => ({ ...one, epoch: -1 })) })),
  ],
  [
    "a history with a validation that is none",
    extra(({ history }) => ({ history: (history as object[]).map((one) => ({ ...one, validation: {} })) })),
  ],
  ["an offset of null", extra(() => ({ orderOffset: null }))],
  ["a negative offset", extra(() => ({ orderOffset: -1 }))],
  ["a negative rate", extra(() => ({ rateScale: -1 }))],
  ["a rate that is no number", extra(() => ({ rateScale: "@NaN" }))],
];

describe("a checkpoint with a right hash", () => {
  test.each(changes)("and %s is left out, and the one before is taken", async (name, change) => {
    const directory = join(root, name.replaceAll(" ", "-"));
    await saveCheckpoint(directory, older);
    const { path } = await saveCheckpoint(directory, { ...newer, ...change(newer) } as Checkpoint);
    const { steps } = await train({ ...given(directory), resume: true });
    expect(steps).toBe(newer.step);
    rmSync(directory, { recursive: true });
    await saveCheckpoint(directory, { ...newer, ...change(newer) } as Checkpoint);
    const error: unknown = await train({ ...given(directory), resume: path }).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(HeddleError);
    expect((error as HeddleError).code).toBe("checkpoint");
    expect((error as HeddleError).message).toMatch(
      /is not a whole checkpoint: its (next batch is|tally|history|orderOffset|rateScale)/,
    );
  });

  test("and the step of another file's name is left out", async () => {
    const directory = join(root, "renamed");
    await saveCheckpoint(directory, older);
    const { path } = await saveCheckpoint(directory, newer);
    renameSync(path, path.replace(/\d{8}/, "00000099"));
    await expect(train({ ...given(directory), resume: path.replace(/\d{8}/, "00000099") })).rejects.toThrow(
      /is of step \d+, not of the step in its name/,
    );
    expect((await train({ ...given(directory), resume: true })).steps).toBe(newer.step);
  });
});

test("a folder that is removed while the run goes on is an error, not a folder made anew", async () => {
  const directory = join(root, "removed");
  const removing = train({
    ...given(directory),
    epochs: 4,
    callbacks: { onEpoch: ({ epoch }) => void (epoch === 2 && rmSync(directory, { recursive: true })) },
  });
  await expect(removing).rejects.toThrow(
    /lock.json was removed from .*removed while this run writes its checkpoints there/,
  );
});
