/** What carries data between workers, and when: the same bits each way, and what is said where memory cannot be had. */
import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { loadNative } from "../../src/executors/native/binding.ts";
import { commandLine, type Ended, environment, watched } from "../cli/heddle-process.ts";
import { partOf } from "../support/sample.ts";

const script = fileURLToPath(new URL("./scripts/run.ts", import.meta.url));

/** Trains with workers whose files may have at most `blocks` blocks of 1024 bytes; memory that is shared is a file. */
function train(variables: NodeJS.ProcessEnv, settings: object, blocks = "unlimited", workers = 2): Promise<Ended> {
  const heddle = [...commandLine, "run", script, "--workers", String(workers), "--", JSON.stringify(settings)];
  const child = spawn("bash", ["-c", `ulimit -f ${blocks}; exec "$@"`, "bash", ...heddle], {
    env: environment(variables),
    stdio: ["ignore", "pipe", "pipe"],
  });
  return watched(child).ended;
}

const refused = /rank \d: there is no shared memory with rank \d, so TCP carries the data: ftruncate: /;

describe.skipIf("error" in loadNative())("two workers", { timeout: 240_000 }, () => {
  test("give the bits of two devices in one, over each transport, with overlap and without", async () => {
    const settings = { epochs: 1, dtype: "f32", axes: { data: 2 } };
    const runs: [transport: string, overlap: string, blocks: string, said: RegExp][] = [
      ["tcp", "off", "unlimited", /^$/],
      ["tcp", "all", "unlimited", /^$/],
      ["auto", "on", "unlimited", /^$/],
      ["shared", "all", "unlimited", /^$/],
      ["auto", "all", "512", refused],
    ];
    const results: string[] = [];
    const note = ({ stdout }: Ended): unknown =>
      results.push(stdout.split("\n").find((line) => line.startsWith("{")) as string);
    for (const [transport, overlap, blocks, said] of partOf(runs, 2)) {
      const ended = await train({ HEDDLE_TRANSPORT: transport, HEDDLE_OVERLAP: overlap }, settings, blocks);
      const { status, stderr } = ended;
      expect({ transport, status, stderr }).toEqual({ transport, status: 0, stderr: expect.stringMatching(said) });
      note(ended);
    }
    note(await train({ HEDDLE_OVERLAP: "all" }, settings, "unlimited", 1));
    expect(new Set(results).size).toBe(1);
    expect(JSON.parse(results[0] as string)).toMatchObject({ steps: 4 });
  });

  test("that must share memory end where the system refuses it", async () => {
    const { status, stderr } = await train({ HEDDLE_TRANSPORT: "shared" }, { epochs: 1 }, "512");
    expect(status).toBe(1);
    expect(stderr).toMatch(/cannot join at 127\.0\.0\.1:\d+: there is no shared memory with rank \d: ftruncate: /);
  });
});
