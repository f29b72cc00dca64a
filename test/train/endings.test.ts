/** Two processes of which one asks to end, fails, or leaves: who is told what. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, describe, expect, test } from "vitest";
import { loadNative } from "../../src/executors/native/binding.ts";
import { started } from "../cli/heddle-process.ts";

const script = fileURLToPath(new URL("./scripts/endings.ts", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "heddle-endings-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

interface Ended {
  readonly code: number | null;
  readonly stderr: string;
  /** What each rank said. */
  readonly said: readonly (readonly string[])[];
}

const run = (...args: string[]): Promise<Ended> => runOn([], ...args);

async function runOn(flags: readonly string[], ...args: string[]): Promise<Ended> {
  const command = ["run", script, "--workers", "2", ...flags, "--", ...args];
  const { status, stdout, stderr } = await started(command, { TMPDIR: folder }).ended;
  const of = (rank: number): string[] =>
    stdout.split("\n").flatMap((line) => new RegExp(`@${rank} (.*)`).exec(line)?.slice(1) ?? []);
  return { code: status, stderr, said: [of(0), of(1)] };
}

describe.skipIf("error" in loadNative())("one of two ranks", { timeout: 60_000 }, () => {
  test("throws: its own error comes first, with its stack; the other has taken as many steps", async () => {
    const { code, stderr } = await run("1:throw");
    expect(code).toBe(1);
    expect(stderr).toMatch(
      /^heddle: rank 1 failed[^\n]*: an error of the user's\n {2}TypeError: an error of the user's\n/,
    );
    expect(stderr).toMatch(/endings\.ts:\d+:\d+/);
    expect(stderr).toMatch(
      /\n {2}then rank 0 failed[^\n]*a callback of rank 1 failed, which ended the training after 7 steps/,
    );
  });

  test("leaves with status 0: that is what is reported", async () => {
    const { code, stderr } = await run("1:exit");
    expect(code).toBe(1);
    expect(stderr).toMatch(/^heddle: rank 1 ended with exit status 0[^\n]* while others still worked with it\n/);
    expect(stderr).toMatch(/\n {2}then rank 0 failed[^\n]*rank 1 closed its connection/);
  });

  // Step 4 is known when step 6 is next: its sum ends the run after 7; the epoch has 8 steps.
  const trained = ["trained 7 steps, 0 epochs"];
  test.each([
    ["1:stop", [trained, trained]],
    ["all:stop", [trained, trained]],
    ["0:stop:stages", [trained, trained]],
    ["1:stop:stages", [trained, trained]],
    [
      "0:abort:stages",
      [
        ["caught enough of it", "again enough of it"],
        [
          "caught the signal of rank 0 ended the training after 7 steps",
          "again the signal of rank 0 ended the training after 2 steps",
        ],
      ],
    ],
    ["0:stopEpoch", [["trained 16 steps, 2 epochs"], ["trained 16 steps, 2 epochs"]]],
    [
      "1:abort",
      [
        [
          "caught the signal of rank 1 ended the training after 7 steps",
          "again the signal of rank 1 ended the training after 2 steps",
        ],
        ["caught enough of it", "again enough of it"],
      ],
    ],
    // A caught error on both; then a second training, in a new attempt at meeting.
    [
      "all:again",
      [
        ["caught nan", "trained 32 steps, 4 epochs"],
        ["caught nan", "trained 32 steps, 4 epochs"],
      ],
    ],
  ])("%s: both end after the same step", async (what, said) => {
    expect(await run(what)).toEqual({ code: 0, stderr: "", said });
  });

  test.each(["0:stop", "1:stop"])(
    "%s, on a mesh axis along which nothing is split: at the end of the epoch",
    async (what) => {
      const said = ["trained 8 steps, 1 epochs"];
      expect(await runOn(["--mesh", "model=2"], what)).toEqual({ code: 0, stderr: "", said: [said, said] });
    },
  );

  test("cannot write checkpoints: all are told before the first step", async () => {
    const file = join(folder, "a-file");
    writeFileSync(file, "");
    const { code, said } = await run("0:nothing", join(file, "checkpoints"));
    expect(code).toBe(0);
    expect(said[0]?.[0]).toMatch(/^no folder: file: checkpoints cannot be written to .*a-file/);
    expect(said[1]?.[0]).toMatch(/^no folder: file: rank 0: checkpoints cannot be written to .*a-file/);
  });
});
