import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, describe, expect, test } from "vitest";
import type { ProfileReport } from "../../src/cli/profile-report.ts";
import type { TraceEvent } from "../../src/cli/profile-trace.ts";
import { parseMachine } from "../../src/cost/index.ts";
import { loadNative } from "../../src/executors/index.ts";
import { heddle } from "../cli/heddle-process.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "heddle-profile-test-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function profile(file: string, ...flags: string[]) {
  const args = [join(root, "bin/heddle.js"), "profile", join(root, "examples", file), ...flags];
  return spawnSync(process.execPath, args, { cwd: folder, encoding: "utf8", env: { ...process.env, NO_COLOR: "1" } });
}

describe.skipIf("error" in loadNative())("heddle profile", () => {
  test("training in two workers: times, shares, a trace; no checkpoint", { timeout: 60_000 }, () => {
    const trace = join(folder, "trace.json");
    const { status, stdout, stderr } = profile(
      "mnist.ts",
      "--steps",
      "2",
      "--workers",
      "2",
      "--json",
      "--trace",
      trace,
    );
    expect({ status, stderr }).toEqual({ status: 0, stderr: `heddle: the trace is in ${trace}\n` });
    const { limits, programs, ranks } = JSON.parse(stdout) as ProfileReport;
    expect(limits.flops).toBeGreaterThan(1e8);
    expect(limits.bytes).toBeGreaterThan(1e8);
    const step = programs.find(({ name }) => name === "trainStep");
    expect(step).toMatchObject({ runs: 2, warmUp: 3 });
    // Collectives beside other calls take time of their own.
    const within = (step?.byKernel ?? []).filter(({ name }) => !name.endsWith("beside the rest"));
    const share = within.reduce((sum, line) => sum + line.share, 0);
    expect(share).toBeGreaterThan(0.5);
    expect(share).toBeLessThan(1.001);
    const kernels = new Map(step?.byKernel.map((line) => [line.name, line]));
    // Two layers: forward by both, the gradient by its input of the second only.
    expect(kernels.get("conv")?.calls).toBe(3);
    expect(kernels.get("convFilter")?.calls).toBe(2);
    // In their place, or beside other calls.
    const reduced = step?.byKernel.filter(({ name }) => name.startsWith("collective allReduce")) ?? [];
    expect(reduced.reduce((sum, { milliseconds }) => sum + milliseconds, 0)).toBeGreaterThan(0);
    expect(step?.communicationMilliseconds).toBeGreaterThan(0);
    expect(ranks.map(({ rank }) => rank)).toEqual([0, 1]);
    const { traceEvents } = JSON.parse(readFileSync(trace, "utf8")) as { traceEvents: TraceEvent[] };
    const steps = traceEvents.filter(({ name, cat }) => name === "trainStep" && cat === "step");
    expect(steps.map(({ pid }) => pid)).toEqual([0, 0, 1, 1]);
    expect(readdirSync(folder)).toEqual(["trace.json"]);
  });

  test("compiled functions: the file runs to its end, and what it prints stays apart", { timeout: 60_000 }, () => {
    const { status, stdout, stderr } = profile("eager.ts", "--steps", "5");
    expect(status).toBe(0);
    expect(stderr).toContain("the gradient of x³ at 2 is");
    expect(stdout).toMatch(/^machine: .*FLOP\/s/);
    expect(stdout).toContain("5 steps after 3 to warm up");
  });

  test("loops: what they hold is timed", { timeout: 60_000 }, () => {
    const { status, stdout } = profile("rnn.ts", "--steps", "2", "--json");
    expect(status).toBe(0);
    const { programs } = JSON.parse(stdout) as ProfileReport;
    const lines = programs.flatMap(({ byCall }) => byCall);
    expect(lines.some(({ name }) => name.startsWith("loop"))).toBe(true);
    expect(lines.some(({ name, calls }) => name.startsWith("dot") && calls > 10)).toBe(true);
  });

  test.each([
    { args: ["mnist.ts", "--steps", "0"], status: 2, says: "whole number from 1 to 10000" },
    { args: ["gone.ts"], status: 2, says: "there is no file" },
    {
      args: ["mlp.ts", "--steps", "1", "--trace", join(root, "package.json", "t.json")],
      status: 2,
      says: "profile: the trace: cannot write ",
    },
  ])("$args is refused", { timeout: 60_000 }, ({ args, status, says }) => {
    const [file, ...flags] = args as [string, ...string[]];
    const result = profile(file, ...flags);
    expect(result.status).toBe(status);
    expect(result.stderr).toContain(says);
  });
});

describe.skipIf("error" in loadNative())("heddle machine", () => {
  test("measures what plans can be made by", { timeout: 60_000 }, () => {
    const file = join(folder, "machine.json");
    const { status, stdout, stderr } = heddle(["machine", "--threads", "1", "--out", file]);
    expect({ status, stderr }).toEqual({ status: 0, stderr: `heddle: the figures are in ${file}\n` });
    const machine = parseMachine(readFileSync(file, "utf8"), file);
    expect(JSON.parse(stdout)).toEqual(machine);
    const { flops, memory, latency, bandwidth, call } = machine;
    for (const rate of [flops, memory, bandwidth]) expect(rate).toBeGreaterThan(1e7);
    for (const seconds of [latency, call]) expect(seconds).toBeLessThan(0.1);
    const home = mkdtempSync(join(folder, "home-"));
    const missing = heddle(["plan", join(root, "examples/mlp.ts"), "--mesh", "data=2", "--machine", "measured"], {
      HOME: home,
    });
    expect(missing).toMatchObject({ status: 2, stdout: "" });
    expect(missing.stderr).toMatch(/have not been measured here\n.*heddle machine --threads \d+ measures them/);
  });
});
