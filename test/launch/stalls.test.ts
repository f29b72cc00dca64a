/** Ranks that others wait for, and ranks that end before their first step: what `heddle run` and `heddle doctor` say. */

import { spawn } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { loadNative } from "../../src/executors/native/binding.ts";
import { parseEvents } from "../../src/launch/events.ts";
import { mostRuns } from "../../src/launch/folder.ts";
import { commandLine, environment, heddle, type Started, watched } from "../cli/heddle-process.ts";

const script = fileURLToPath(new URL("./scripts/phases.ts", import.meta.url));
const native = !("error" in loadNative());

/** A folder with a project, whose runs are kept there. */
let project = "";
beforeEach(() => {
  project = mkdtempSync(join(tmpdir(), "heddle-stalls-"));
  writeFileSync(join(project, "package.json"), "{}");
});
afterEach(() => rmSync(project, { recursive: true, force: true }));

function start(...args: readonly string[]): Started {
  const [command, ...first] = commandLine as [string, ...string[]];
  return watched(
    spawn(command, [...first, "run", script, "--threads", "1", ...args], {
      cwd: project,
      env: environment(),
      stdio: ["ignore", "pipe", "pipe"],
    }),
  );
}

/** Waits until the run has said something. */
async function said(run: Started, what: RegExp): Promise<RegExpExecArray> {
  let text = "";
  for (const stream of [run.child.stdout, run.child.stderr])
    stream?.on("data", (part: string) => {
      text += part;
    });
  for (;;) {
    const found = what.exec(text);
    if (found !== null) return found;
    if (run.child.exitCode !== null) throw new Error(`the run has ended: ${text}`);
    await new Promise((done) => setTimeout(done, 20));
  }
}

/** The process of a rank, which prints it. */
const pidOf = async (run: Started, rank: number): Promise<number> =>
  Number((await said(run, new RegExp(`rank ${rank} is (\\d+)\\.`)))[1]);

const runsOf = (folder: string): string[] => readdirSync(join(folder, ".heddle", "runs")).sort();

describe.skipIf(!native || process.platform !== "linux")("three ranks", { timeout: 120_000 }, () => {
  test("a rank that is stopped is named after some seconds, when it goes on, and by heddle doctor", async () => {
    const run = start("--workers", "3", "--", "training");
    const pid = await pidOf(run, 1);
    process.kill(pid, "SIGSTOP");
    await said(run, /has not (come to|finished)/);
    process.kill(pid, "SIGCONT");
    await said(run, /goes on/);
    process.kill(pid, "SIGKILL");
    const { stderr } = await run.ended;
    expect(stderr).toMatch(
      /heddle: rank 1 has not (come to|finished) all(Reduce|Gather) .* for \d+ s \(the process of rank 1 is stopped\)(; ranks 0, 2 wait)?\nheddle: rank 1 goes on\n/,
    );
    expect(stderr).toMatch(/heddle: rank 1 was killed by SIGKILL after the launch of step \d+/);
    const [name, ...more] = runsOf(project);
    expect(more).toEqual([]);
    const folder = join(project, ".heddle", "runs", name as string);
    expect(stderr).toContain(folder);
    expect(readdirSync(folder).sort()).toEqual(
      expect.arrayContaining(["config.json", "events.jsonl", "rank-0.flight", "rank-1.flight", "rank-2.flight"]),
    );
    const events = parseEvents(readFileSync(join(folder, "events.jsonl"), "utf8")).map(({ event }) => event);
    expect(events.slice(0, 5)).toEqual(["start", "program", "worker", "worker", "worker"]);
    expect(events).toEqual(expect.arrayContaining(["waiting", "goes on", "ended", "failure", "end"]));
    const { status, stdout } = heddle(["doctor", folder]);
    expect(status).toBe(0);
    const [who, where, before] = stdout.split("\n");
    expect(who).toMatch(/^Rank 1 was killed by SIGKILL after the launch of step \d+.*, \d+\.\d s after its start\.$/);
    expect(where).toMatch(
      /^(Ranks? (0, 2|0|2) waited for rank.*|All ranks were) in all(Reduce|Gather) .* since \d\d:\d\d:\d\d\.\d{3} UTC/,
    );
    expect(before).toMatch(/told of waiting, the last: rank 1 (has not|is slow)/);
    expect(JSON.parse(heddle(["doctor", folder, "--json"]).stdout)).toMatchObject({ sentences: { length: 3 } });
  });

  test.each([
    ["script", /rank 1 was killed by SIGKILL while it was in its script, before train or connect/],
    ["joining", /rank 1 was killed by SIGKILL while it was joining the other ranks/],
  ])("a rank that is killed in its start, %s", async (where, says) => {
    const run = start("--workers", "2", "--", where);
    process.kill(await pidOf(run, 1), "SIGKILL");
    expect((await run.ended).stderr).toMatch(says);
  });

  test("a rank that is killed before its script", async () => {
    const run = start("--workers", "2", "--", "script");
    const children = `/proc/${run.child.pid}/task/${run.child.pid}/children`;
    const isSecond = (pid: string): boolean => readFileSync(`/proc/${pid}/environ`, "latin1").includes("\0RANK=1\0");
    let pid: string | undefined;
    while (pid === undefined) {
      pid = readFileSync(children, "latin1").split(" ").filter(Boolean).find(isSecond);
      await new Promise((done) => setImmediate(done));
    }
    process.kill(Number(pid), "SIGKILL");
    expect((await run.ended).stderr).toMatch(/rank 1 was killed by SIGKILL while it was starting/);
  });
});

test("the folders of the last runs are kept, the older ones removed", () => {
  const file = join(project, "empty.mjs");
  writeFileSync(file, "");
  for (let run = 0; run < 2; run++) heddle(["run", file], {}, project);
  const runs = join(project, ".heddle", "runs");
  const [first] = runsOf(project) as [string];
  const old = Array.from({ length: mostRuns }, (_unused, index) => `2020-01-${String(index + 1).padStart(2, "0")}`);
  for (const name of old) writeFileSync(join(runs, name), "");
  heddle(["run", file], {}, project);
  const names = runsOf(project);
  expect(names).toHaveLength(mostRuns);
  expect(names).toContain(first);
  expect(names).not.toContain(old[0]);
  const { stdout } = heddle(["doctor", join(runs, first)]);
  expect(stdout).toMatch(/^The run ended well, /);
});
