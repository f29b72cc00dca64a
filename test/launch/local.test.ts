import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { loadNative } from "../../src/executors/native/binding.ts";
import { keepRunDirectory, makeRunDirectory } from "../../src/launch/folder.ts";
import { allGone, type Launcher, startLauncher, temporaryScript, typedScript } from "./launcher.ts";

const launchers: Launcher[] = [];

function launch(...[options]: Parameters<typeof startLauncher>): Launcher {
  const launcher = startLauncher(options);
  launchers.push(launcher);
  return launcher;
}

afterEach(() => {
  for (const launcher of launchers.splice(0)) launcher.dispose();
});

/** Lines of a text without the last, empty one. */
const lines = (text: string) => text.split("\n").filter((line) => line !== "");

describe("a run that goes well", () => {
  test("one worker has the terminal to itself", async () => {
    const launcher = launch({ args: ["print:out", "error:err"] });
    const { code, stdout, stderr } = await launcher.ended;
    expect({ code, stdout, stderr }).toEqual({ code: 0, stdout: "out\n", stderr: "err\n" });
    expect(launcher.leftovers()).toEqual([]);
  });

  test("every worker knows its place", async () => {
    const names = "RANK,LOCAL_RANK,WORLD_SIZE,LOCAL_WORLD_SIZE,MASTER_ADDR,HEDDLE_EPOCH,HEDDLE_THREADS,HEDDLE_EXECUTOR";
    const launcher = launch({ workers: 2, threads: 3, executor: "reference", args: [`1/env:${names}`] });
    const { code, stdout } = await launcher.ended;
    expect(code).toBe(0);
    expect(lines(stdout)).toEqual(
      [
        "RANK=1",
        "LOCAL_RANK=1",
        "WORLD_SIZE=2",
        "LOCAL_WORLD_SIZE=2",
        "MASTER_ADDR=127.0.0.1",
        "HEDDLE_EPOCH=0",
        "HEDDLE_THREADS=3",
        "HEDDLE_EXECUTOR=reference",
      ].map((line) => `[rank 1] ${line}`),
    );
  });

  test("workers share run id, secret, port and folder; two runs do not", async () => {
    const values = async () => {
      const args = ["env:HEDDLE_RUN_ID,HEDDLE_SECRET,MASTER_PORT,HEDDLE_RUN_DIR"];
      const { stdout } = await launch({ workers: 2, prefix: "all", args }).ended;
      const of = (rank: number) => lines(stdout).filter((line) => line.startsWith(`[rank ${rank}]`));
      const plain = of(0).map((line) => line.slice("[rank 0] ".length));
      expect(of(1).map((line) => line.slice("[rank 1] ".length))).toEqual(plain);
      return plain;
    };
    const [first, second] = await Promise.all([values(), values()]);
    expect(first[0]).toMatch(/^HEDDLE_RUN_ID=[0-9a-f]{16}$/);
    expect(first[1]).toMatch(/^HEDDLE_SECRET=[0-9a-f]{64}$/);
    expect(first[2]).toMatch(/^MASTER_PORT=[1-9]\d*$/);
    for (const [index, value] of first.entries()) expect(second[index]).not.toBe(value);
  });

  test("what a script forks is no worker: it lives on, sends no messages and reports its own errors", async () => {
    const { code, stdout, stderr } = await launch({ args: ["fork"] }).ended;
    const ended = "child ended: 1 null, Error: of the child\n";
    expect({ code, stdout, stderr }).toEqual({ code: 0, stdout: ended, stderr: "" });
  });

  test("workers that never meet are told of it at the end, unless the run failed", async () => {
    const errors = async (...args: string[]) => (await launch({ workers: 2, args }).ended).stderr;
    const [apart, met, failed] = await Promise.all([errors("print:a"), errors("1/join"), errors("1/exit:3")]);
    expect(apart).toMatch(/^heddle: the 2 workers never met: each ran the whole file for itself.*\n.*docs\/loops\.md/);
    expect(met).toBe("");
    expect(failed).not.toContain("never met");
  });

  test("TypeScript runs as it is, with arguments", async () => {
    const { code, stdout, stderr } = await launch({ file: typedScript, args: ["a", "--b"] }).ended;
    expect(stderr).toBe("");
    expect({ code, stdout }).toEqual({ code: 0, stdout: "hello from rank 0, a --b\n" });
  });

  test("removes the folder of a dead launcher, and no other", async () => {
    const folder = mkdtempSync(join(tmpdir(), "heddle-folders-"));
    const before = process.env["TMPDIR"];
    process.env["TMPDIR"] = folder;
    try {
      const own = makeRunDirectory();
      // No process has a number this high.
      const dead = own.replace(`-${process.pid}-`, "-4194999-");
      const elsewhere = own.replace(/run-[0-9a-f]{8}/, "run-00000000").replace(`-${process.pid}-`, "-4194999-");
      for (const path of [dead, elsewhere]) mkdirSync(path);
      const next = makeRunDirectory();
      expect(readdirSync(folder).sort()).toEqual([own, elsewhere, next].map((path) => basename(path)).sort());
      const kept = keepRunDirectory(next);
      makeRunDirectory();
      expect(existsSync(kept)).toBe(true);
    } finally {
      process.env["TMPDIR"] = before;
      if (before === undefined) delete process.env["TMPDIR"];
      rmSync(folder, { recursive: true, force: true });
    }
  });

  test("lines of workers never mix, and an unfinished last line is not lost", async () => {
    const args = ["raw:a", "sleep:100", "raw:b\nc", "sleep:50", "raw:\nd"];
    const { stdout } = await launch({ workers: 3, prefix: "all", args }).ended;
    for (const rank of [0, 1, 2]) {
      expect(lines(stdout).filter((line) => line.startsWith(`[rank ${rank}]`))).toEqual(
        ["ab", "c", "d"].map((text) => `[rank ${rank}] ${text}`),
      );
    }
  });

  test("listening to the launcher does not keep a script alive", async () => {
    const { code, milliseconds } = await launch({ workers: 2, args: ["step:1"] }).ended;
    expect(code).toBe(0);
    expect(milliseconds).toBeLessThan(15_000);
  });
});

describe("a run that fails", () => {
  test("the status is the worker's own", async () => {
    const { code, stderr } = await launch({ workers: 2, args: ["1/exit:7", "hang"] }).ended;
    expect(code).toBe(7);
    expect(lines(stderr)).toEqual(["heddle: rank 1 ended with exit status 7"]);
  });

  test("an uncaught error is shown once, by the launcher", async () => {
    const launcher = launch({ workers: 2, args: ["1/throw:no such thing", "hang"] });
    const { code, stderr, milliseconds } = await launcher.ended;
    expect(code).toBe(1);
    expect(lines(stderr)[0]).toBe("heddle: rank 1 failed: no such thing");
    expect(stderr).toContain("worker.mjs:");
    expect(stderr.match(/TypeError: no such thing/g)).toHaveLength(1);
    expect(milliseconds).toBeLessThan(15_000);
    expect(launcher.leftovers()).toEqual([]);
  });

  test("a rejected promise that nobody handles is an error, too", async () => {
    const { code, stderr } = await launch({ args: ["reject:late", "hang"] }).ended;
    expect(code).toBe(1);
    expect(lines(stderr).slice(0, 2)).toEqual(["heddle: the script failed", "  Error: late"]);
  });

  test("a killed worker comes first, with its step; the survivor's error explains where", async () => {
    const args = ["1/step:57", "1/sleep:50", "1/kill", "0/sleep:300", "0/peer:rank 1 closed the connection"];
    const { code, stderr, milliseconds } = await launch({ workers: 2, args }).ended;
    expect(code).toBe(128 + 9);
    expect(lines(stderr)).toEqual([
      "heddle: rank 1 was killed by SIGKILL after the launch of step 57, during allReduce sum f32 x 10 'g'",
      "  (if nobody killed it: the system does so when memory runs out)",
      "  then rank 0 failed: rank 1 closed the connection",
    ]);
    expect(milliseconds).toBeLessThan(15_000);
  });

  test("an error of its own comes before errors about peers, however late it is", async () => {
    const args = ["0/peer:rank 1 closed", "1/sleep:400", "1/throw:the cause"];
    const { stderr } = await launch({ workers: 2, args }).ended;
    expect(lines(stderr)[0]).toBe("heddle: rank 1 failed: the cause");
    expect(stderr).toContain("  then rank 0 failed: rank 1 closed");
  });

  test("the others are stopped even if they ignore signals or compute without end", async () => {
    const args = ["pid:{folder}", "0/ignore", "0/hang", "1/sleep:300", "1/kill", "2/ignore", "2/spin"];
    const launcher = launch({ workers: 3, args });
    const pids = await launcher.pids(3);
    const { code, milliseconds } = await launcher.ended;
    expect(code).toBe(137);
    expect(milliseconds).toBeLessThan(15_000);
    expect(await allGone(pids, 0)).toBe(true);
  });

  test("a taken port is named", async () => {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as { port: number };
    const { code, stderr } = await launch({ workers: 2, port, args: [] }).ended;
    server.close();
    expect(code).toBe(1);
    expect(stderr).toContain("EADDRINUSE");
  });
});

describe("a run that is stopped", () => {
  const signals = [
    ["SIGINT", 130],
    ["SIGTERM", 143],
    ["SIGHUP", 129],
  ] as const;
  test.each(signals)("%s ends everything within 2 s and leaves nothing", async (signal, status) => {
    const args = ["temporary:{folder}/a.tmp", "1/ignore", "pid:{folder}", "hang"];
    const launcher = launch({ workers: 2, grace: 1, args });
    const pids = await launcher.pids(2);
    const before = performance.now();
    launcher.child.kill(signal);
    const { code, stderr } = await launcher.ended;
    expect(performance.now() - before).toBeLessThan(2000);
    expect({ code, stderr }).toEqual({ code: status, stderr: `heddle: stopped by ${signal}\n` });
    expect(await allGone(pids, 0)).toBe(true);
    expect(launcher.leftovers()).toEqual([]);
  });

  test.each([
    { says: "by default a program has time to clean up", options: {}, cleaned: true },
    { says: "with none it is killed", options: { grace: 0 }, cleaned: false },
  ])("$says", async ({ options, cleaned }) => {
    // Longer than a second, which once was all the time.
    const launcher = launch({ ...options, args: ["late:1500", "pid:{folder}", "hang"] });
    await launcher.pids(1);
    launcher.child.kill("SIGTERM");
    const { code, stdout } = await launcher.ended;
    expect({ code, cleaned: stdout.includes("cleaned") }).toEqual({ code: 143, cleaned });
  });

  test("Ctrl-C, which reaches the workers as well, is no failure of theirs", async () => {
    const launcher = launch({ workers: 2, args: ["pid:{folder}", "hang"] });
    const pids = await launcher.pids(2);
    // The workers get it first, as can happen when a terminal signals the whole group.
    for (const pid of pids) process.kill(pid, "SIGINT");
    launcher.child.kill("SIGINT");
    const { code, stderr } = await launcher.ended;
    expect({ code, stderr }).toEqual({ code: 130, stderr: "heddle: stopped by SIGINT\n" });
  });

  test("a killed launcher takes its workers along, with their half-written files", async () => {
    const launcher = launch({ workers: 2, file: temporaryScript, args: ["{folder}"] });
    const pids = await launcher.pids(2);
    expect(launcher.leftovers().filter((name) => name.startsWith("file"))).toEqual(["file.tmp-0", "file.tmp-1"]);
    launcher.child.kill("SIGKILL");
    await launcher.ended;
    expect(await allGone(pids, 2000)).toBe(true);
    expect(launcher.leftovers()).toEqual([]);
  });

  test.skipIf("error" in loadNative())("a killed launcher takes workers along that compute without end", async () => {
    const launcher = launch({ workers: 2, args: ["pid:{folder}", "spin"] });
    const pids = await launcher.pids(2);
    launcher.child.kill("SIGKILL");
    // Their output is the launcher's: it ends with the last of them.
    expect(await allGone(pids, 10_000)).toBe(true);
  });

  test("temporary files of a killed worker are removed", async () => {
    const args = ["temporary:{folder}/checkpoint.tmp", "sleep:100", "1/kill", "hang"];
    const launcher = launch({ workers: 2, args });
    expect((await launcher.ended).code).toBe(137);
    expect(launcher.leftovers()).toEqual([]);
  });
});
