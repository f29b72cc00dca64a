/** What carries data between workers: the same bits over each transport, and what is said where one cannot be had. */
import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { loadNative } from "../../src/runtime/native/binding.ts";

const command = fileURLToPath(new URL("../cli/heddle.ts", import.meta.url));
const script = fileURLToPath(new URL("./scripts/run.ts", import.meta.url));

interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Trains with two workers, whose files may have at most `blocks` blocks of 1024 bytes; memory that is shared is a file. */
function train(transport: string, settings: object, blocks = "unlimited"): Promise<Ended> {
  const heddle = [process.execPath, "--import", "tsx", command, "run", script, "--workers", "2", "--"];
  const child = spawn("bash", ["-c", `ulimit -f ${blocks}; exec "$@"`, "bash", ...heddle, JSON.stringify(settings)], {
    env: { ...process.env, NO_COLOR: "1", NODE_OPTIONS: "--conditions=heddle-source", HEDDLE_TRANSPORT: transport },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const output = { stdout: "", stderr: "" };
  for (const name of ["stdout", "stderr"] as const) {
    child[name].setEncoding("utf8").on("data", (text: string) => {
      output[name] += text;
    });
  }
  return new Promise((resolve) => child.once("close", (code) => resolve({ code, ...output })));
}

const refused = /rank \d: there is no shared memory with rank \d, so TCP carries the data: ftruncate: /;

describe.skipIf("error" in loadNative())("two workers", { timeout: 240_000 }, () => {
  test("give the same bits over each transport, and fall back where the system refuses memory", async () => {
    const settings = { epochs: 1, dtype: "f32" };
    const runs: [string, string, RegExp][] = [
      ["tcp", "unlimited", /^$/],
      ["auto", "unlimited", /^$/],
      ["shared", "unlimited", /^$/],
      ["auto", "512", refused],
    ];
    const results: string[] = [];
    for (const [transport, blocks, said] of runs) {
      const { code, stdout, stderr } = await train(transport, settings, blocks);
      expect({ transport, code, stderr }).toEqual({ transport, code: 0, stderr: expect.stringMatching(said) });
      results.push(stdout.split("\n").find((line) => line.startsWith("{")) as string);
    }
    expect(new Set(results).size).toBe(1);
    expect(JSON.parse(results[0] as string)).toMatchObject({ steps: 4 });
  });

  test("that must share memory end where the system refuses it", async () => {
    const { code, stderr } = await train("shared", { epochs: 1 }, "512");
    expect(code).toBe(1);
    expect(stderr).toMatch(/cannot join at 127\.0\.0\.1:\d+: there is no shared memory with rank \d: ftruncate: /);
  });
});
