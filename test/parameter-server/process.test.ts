/** Servers as processes of `heddle run`: the values of plain training, and a run that goes on when a server and a worker are killed. */
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { checkOptions } from "../../src/launch/launch-options.ts";
import { type Ended, started, withoutSpeed } from "../cli/heddle-process.ts";
import { missing } from "../native/evaluate.ts";

const script = fileURLToPath(new URL("run.ts", import.meta.url));

interface Told {
  readonly values: readonly number[];
  readonly history: readonly number[];
}

function told({ status, stdout, stderr }: Ended): Told {
  const line = stdout.split("\n").find((text) => text.startsWith("{"));
  expect({ status, stderr: line === undefined ? withoutSpeed(stderr) : "" }).toEqual({ status: 0, stderr: "" });
  return JSON.parse(line as string) as Told;
}

const run = (...args: string[]) => started(["run", script, ...args]);

function expectClose(one: readonly number[], other: readonly number[]): void {
  expect(one).toHaveLength(other.length);
  for (const [index, value] of one.entries()) expect(Math.abs(value - (other[index] as number))).toBeLessThan(1e-9);
}

/** Process ids of the servers, in their order, below a launcher. */
function serverPids(launcher: number): number[] {
  const lines = execFileSync("ps", ["-o", "pid=,args=", "--ppid", String(launcher)], { encoding: "utf8" }).split("\n");
  return lines.filter((line) => / serve$/.test(line.trimEnd())).map((line) => Number.parseInt(line, 10));
}

/** Process ids of the workers, below a launcher. */
function workerPids(launcher: number): number[] {
  const lines = execFileSync("ps", ["-o", "pid=,args=", "--ppid", String(launcher)], { encoding: "utf8" }).split("\n");
  return lines.filter((line) => line.includes("run.ts")).map((line) => Number.parseInt(line, 10));
}

describe.skipIf(missing !== undefined)("processes", () => {
  test("three workers with two servers, or as servers themselves, under bsp: the values of one worker", async () => {
    const plain = told(await run("--", "2", "0").ended);
    for (const servers of ["2", "0"]) {
      const ended = await run("--workers", "3", "--servers", servers, "--policy", "bsp", "--", "2", "0").ended;
      const served = told(ended);
      expectClose(served.values, plain.values);
      expectClose(served.history, plain.history);
      expect(ended.stdout).toMatch(/servers: policy bsp, 8 steps of 24 pushes; staleness in steps 0.00/);
    }
  });

  // From the build, which bundles the library: each filter with its own way of bytes.
  test.each(["int8", "top-k", "significant:0.01,lossless"])("pushes go through %s", async (filters) => {
    const args = ["run", script, "--workers", "2", "--servers", "1", "--policy", "bsp", "--", "2", "0"];
    const { values, history } = told(await started(args, { FILTERS: filters }).ended);
    expect(values.every(Number.isFinite)).toBe(true);
    expect(history[1]).toBeLessThan(history[0] as number);
  });

  test.each([
    // Of 8 steps each; the rest of the steps is a push of its own.
    ["downpour:2:3", 6],
    ["elastic-averaging:4", 4],
  ])("two workers train copies of their own under %s", async (policy, pushes) => {
    const ended = await run("--workers", "2", "--servers", "2", "--policy", policy, "--", "2", "0").ended;
    const { values, history } = told(ended);
    expect(values.every(Number.isFinite)).toBe(true);
    expect(history).toHaveLength(2);
    expect(ended.stdout).toMatch(new RegExp(`servers: policy ${policy}[\\d.:]*, ${pushes} steps of ${pushes} pushes`));
  });

  test("a server that is killed comes back, and the values are those of a run without that", async () => {
    const plain = told(await run("--", "3", "0").ended);
    const going = run("--workers", "2", "--servers", "2", "--policy", "bsp", "--", "3", "60");
    await going.until("under way");
    const [first, second] = serverPids(going.child.pid as number) as [number, number];
    process.kill(first, "SIGKILL");
    // A second loss is survived once the first server has its copies again.
    await going.until("epoch 2/3");
    process.kill(second, "SIGKILL");
    const ended = await going.ended;
    for (const server of [0, 1])
      expect(ended.stderr).toContain(`server ${server} was ended by SIGKILL: it is started again`);
    expectClose(told(ended).values, plain.values);
  });

  test("a worker that is killed leaves, and nobody waits for it", async () => {
    const going = run("--workers", "3", "--servers", "1", "--policy", "ssp:1", "--", "3", "40");
    await going.until("under way");
    // As to the whole group: the launcher alone ends a server.
    for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const)
      process.kill(serverPids(going.child.pid as number)[0] as number, signal);
    process.kill(workerPids(going.child.pid as number).at(-1) as number, "SIGKILL");
    const ended = await going.ended;
    expect(told(ended).history).toHaveLength(3);
    expect(ended.stderr).toMatch(/worker 2 was ended by SIGKILL: the others go on/);
    expect(ended.stderr).not.toMatch(/is started again/);
    expect(ended.stdout).toMatch(/policy ssp:1, 3 workers: a clock/);
    expect(ended.stdout).not.toMatch(/^workers/m);
  });

  test("a worker that is killed before the training begins is not waited for", async () => {
    const folder = mkdtempSync(join(tmpdir(), "heddle-before-"));
    try {
      const signal = join(folder, "go");
      const going = run("--workers", "3", "--servers", "2", "--policy", "bsp", "--", "2", "0", signal);
      await going.until("[rank 2] before the training");
      process.kill(workerPids(going.child.pid as number).at(-1) as number, "SIGKILL");
      await going.until("worker 2 was ended by SIGKILL: the others go on");
      writeFileSync(signal, "");
      const ended = await going.ended;
      expect(told(ended).history).toHaveLength(2);
      expect(ended.stdout).toMatch(/servers: policy bsp, 8 steps of 16 pushes/);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});

test.each([
  ["bounded-delay:2", /'bounded-delay:2' has a worker begin clocks before its last one has ended/],
  ["backup:2", /'backup:2' needs more than 2 workers, and there are 2/],
  ["ssp:3:4", /takes one number/],
])("%s is refused before processes start", (policy, message) => {
  expect(() => checkOptions({ file: script, servers: 1, policy }, 2)).toThrow(message);
});

test("flags that do not go together are refused", async () => {
  const { status, stderr } = await run("--servers", "1", "--workers", "2:4").ended;
  expect({ status, stderr }).toEqual({
    status: 2,
    stderr: expect.stringMatching(/leave out the least number of --workers/),
  });
  expect(() => checkOptions({ file: script, servers: 1, mesh: "data=2" }, 2)).toThrow(
    /--mesh does not go with --servers/,
  );
  expect((await run("--policy", "sps:1").ended).stderr).toMatch(/there is no policy 'sps'/);
});
