/** The collectives that users call, between processes: over each transport, for 1, 2 and 4 ranks, in every dtype; a twelfth of the calls where a part is run. */
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { loadNative } from "../../src/executors/native/binding.ts";
import { started } from "../cli/heddle-process.ts";
import { isWhole } from "../support/sample.ts";
import { triedCases } from "./scripts/cases.ts";

const script = fileURLToPath(new URL("./scripts/all.ts", import.meta.url));

interface Said {
  readonly rank: number;
  readonly tried: number;
  readonly wrong: readonly string[];
}

/** One rank has no transport. */
const rows = [
  { transport: "shared", workers: 1 },
  ...["shared", "tcp"].flatMap((transport) => [2, 4].map((workers) => ({ transport, workers }))),
];

describe.skipIf("error" in loadNative())("every collective in every dtype", { timeout: 240_000 }, () => {
  const every = isWhole() ? 1 : 12;

  test.each(rows)("$transport, $workers ranks", async ({ transport, workers }) => {
    const { stdout, stderr } = await started(["run", script, "--workers", String(workers), "--", String(every)], {
      HEDDLE_TRANSPORT: transport,
      HEDDLE_THREADS: "1",
    }).ended;
    const said = [...stdout.matchAll(/RESULT (\{.*\})/g)].map((match) => JSON.parse(match[1] as string) as Said);
    expect(said.length, stdout + stderr).toBe(workers);
    const { length } = triedCases(workers);
    expect(length).toBeGreaterThan(500);
    for (const { wrong, tried } of said) {
      expect(wrong).toEqual([]);
      expect(tried).toBe(Math.ceil(length / every));
    }
  });
});

describe.skipIf("error" in loadNative())("workers that call differently get an error that names both", () => {
  test.each([
    ["root", /'comm\.check 0 of comm\.broadcast f32\[2\]'.*'comm\.check 0 of comm\.broadcast root 1 f32\[2\]'/],
    ["root in a function", /of comm\.gather f32\[2\]'.*of comm\.gather root 1 f32\[2\]'/],
    ["pairs", /comm\.permute pairs \[\[0,1\]\] f32\[2\]'.*comm\.permute pairs \[\] f32\[2\]'/],
    ["collective", /'comm\.allReduce 1 f32\[2\]'.*comm\.broadcast f32\[2\]'/],
  ])(
    "another %s",
    async (what, message) => {
      const file = fileURLToPath(new URL("./scripts/differ.ts", import.meta.url));
      const variables = { HEDDLE_THREADS: "1", HEDDLE_TIMEOUT: "30" };
      const { stdout, stderr } = await started(["run", file, "--workers", "2", "--", what], variables).ended;
      const said = [...stdout.matchAll(/RESULT (".*")/g)].map((match) => JSON.parse(match[1] as string) as string);
      expect(said, stdout + stderr).toEqual([expect.stringMatching(message), expect.stringMatching(message)]);
    },
    60_000,
  );
});
