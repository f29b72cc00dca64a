/** The collectives that users call, between processes: over each transport, for 1, 2 and 4 ranks, in every dtype. */
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { loadNative } from "../../src/executors/native/binding.ts";
import { started } from "../cli/heddle-process.ts";

const script = fileURLToPath(new URL("./scripts/all.ts", import.meta.url));

interface Said {
  readonly rank: number;
  readonly tried: number;
  readonly wrong: readonly string[];
}

describe.skipIf("error" in loadNative())("every collective in every dtype", { timeout: 240_000 }, () => {
  test.each(["shared", "tcp"].flatMap((transport) => [1, 2, 4].map((workers) => ({ transport, workers }))))(
    "$transport, $workers ranks",
    async ({ transport, workers }) => {
      const { stdout, stderr } = await started(["run", script, "--workers", String(workers)], {
        HEDDLE_TRANSPORT: transport,
        HEDDLE_THREADS: "1",
      }).ended;
      const said = [...stdout.matchAll(/RESULT (\{.*\})/g)].map((match) => JSON.parse(match[1] as string) as Said);
      expect(said.length, stdout + stderr).toBe(workers);
      for (const { wrong, tried } of said) {
        expect(wrong).toEqual([]);
        expect(tried).toBeGreaterThan(500);
      }
    },
  );
});
