/** One suite for whatever starts workers: same file, same output, same end. `npm run test:engines` */
import { mkdtempSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { allGone, Desk, type Ended, type Running } from "./desk.ts";
import { grounds } from "./grounds.ts";

const pathOf = (name: string): string => fileURLToPath(new URL(name, import.meta.url));
const workload = pathOf("../e2e/workload.ts");
const script = pathOf("../launch/scripts/worker.mjs");

/** Lines of a text without the last, empty one. */
const lines = (text: string): string[] => text.split("\n").filter((line) => line !== "");
const sorted = (text: string): string[] => lines(text).sort();

for (const ground of grounds) {
  const lacks = ground.lacks();
  describe.skipIf(lacks !== undefined)(`${ground.name}${lacks === undefined ? "" : ` (${lacks})`}`, () => {
    let desk: Desk;
    let variables: Record<string, string>;

    beforeAll(async () => {
      desk = new Desk();
      variables = await ground.open(desk);
    }, 180_000);
    afterEach(() => desk.clear());
    afterAll(() => desk?.dispose(), 60_000);

    const heddle = (flags: readonly string[], file: string, args: readonly string[] = []): Running =>
      desk.start([process.execPath, "bin/heddle.js", "run", file, ...ground.flags, ...flags, "--", ...args], variables);
    const ended = (flags: readonly string[], ...args: string[]): Promise<Ended> => heddle(flags, script, args).ended;
    /** What is expected in the stream of output and in that of errors. */
    const streams = (stdout: string, stderr: string): Pick<Ended, "stdout" | "stderr"> =>
      ground.oneStream === true ? { stdout: stdout + stderr, stderr: "" } : { stdout, stderr };
    const newFolder = (): string => mkdtempSync(join(desk.folder, "test-"));

    test("a training has the bits and the lines of any other launcher", async () => {
      const { status, stdout, stderr } = await heddle(["-n", "2"], workload, [JSON.stringify({ epochs: 2 })]).ended;
      expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
      expect(sorted(stdout.replace(/process \d+/g, "process N"))).toEqual([
        "[rank 1] worker 1 is process N",
        "digest 821675179",
        "step 1 loss 1.5195504426956177",
        "step 2 loss 1.4693630933761597",
        "step 3 loss 1.4118989706039429",
        "step 4 loss 1.3237035274505615",
        "step 5 loss 1.351611614227295",
        "worker 0 is process N",
      ]);
    });

    test("every worker knows its place, and what is said of the run", async () => {
      const told = "RANK,LOCAL_RANK,WORLD_SIZE,LOCAL_WORLD_SIZE,MASTER_ADDR,HEDDLE_EPOCH,HEDDLE_THREADS,HEDDLE_QUIET";
      const { status, stdout } = await ended(["-n", "2", "-t", "3", "-q", "--prefix", "all"], `env:${told}`, "join");
      expect(status).toBe(0);
      const place = (rank: number): string[] => [
        `RANK=${rank}`,
        `LOCAL_RANK=${rank}`,
        "WORLD_SIZE=2",
        "LOCAL_WORLD_SIZE=2",
        "MASTER_ADDR=127.0.0.1",
        "HEDDLE_EPOCH=0",
        "HEDDLE_THREADS=3",
        "HEDDLE_QUIET=1",
      ];
      for (const rank of [0, 1])
        expect(lines(stdout).flatMap((line) => (line.startsWith(`[rank ${rank}] `) ? [line.slice(9)] : []))).toEqual(
          place(rank),
        );
    });

    test("secrets stand on no command line", async () => {
      const folder = newFolder();
      const run = heddle(["-n", "2"], script, [`pid:${folder}`, "hang"]);
      await desk.pids(folder, 2);
      const commands = readdirSync("/proc")
        .filter((name) => /^\d+$/.test(name))
        .flatMap((pid) => {
          try {
            return [readFileSync(`/proc/${pid}/cmdline`, "latin1").replaceAll("\0", " ")];
          } catch {
            return [];
          }
        });
      expect(commands.some((command) => command.includes(folder))).toBe(true);
      expect(commands.filter((command) => /\b[0-9a-f]{64}\b/.test(command))).toEqual([]);
      run.child.kill("SIGTERM");
      await run.ended;
    });

    test("lines of workers never mix, and an unfinished last line is not lost", async () => {
      const long = "x".repeat(3000);
      const args = ["raw:a", "sleep:100", "raw:b\nc", "sleep:50", `raw:\n${long}\n${long}\nd`, "error:e", "join"];
      const { status, stdout, stderr } = await ended(["-n", "3", "--prefix", "all"], ...args);
      expect(status).toBe(0);
      for (const rank of [0, 1, 2]) {
        const prefix = `[rank ${rank}] `;
        const own = lines(stdout + stderr).flatMap((line) => (line.startsWith(prefix) ? [line.slice(9)] : []));
        expect(own.filter((line) => line !== "e")).toEqual(["ab", "c", long, long, "d"]);
        expect(own.filter((line) => line === "e")).toHaveLength(1);
      }
    });

    test("workers that never meet are told of it", async () => {
      const { status, stdout, stderr } = await ended(["-n", "2"], "print:a");
      expect(status).toBe(0);
      expect(stdout + stderr).toContain("heddle: the 2 workers never met: each ran the whole file for itself.");
    });

    test.each([
      ["SIGINT", 130],
      ["SIGTERM", 143],
      ["SIGUSR2", 140],
    ] as const)("%s ends all workers, with status %i", async (signal, status) => {
      const folder = newFolder();
      const run = heddle(["-n", "2"], script, [`pid:${folder}`, "hang"]);
      const pids = await desk.pids(folder, 2);
      run.child.kill(signal);
      expect(await run.ended).toEqual({
        status,
        ...streams("", `heddle: stopped by ${ground.toldOf?.(signal) ?? signal}\n`),
      });
      expect(await allGone(pids, 5000)).toBe(true);
    });

    test("the status is that of the worker that failed", async () => {
      const { status, stdout, stderr } = await ended(["-n", "2"], "1/exit:7", "hang");
      expect({ status, stdout, stderr }).toEqual({
        status: 7,
        ...streams("", "heddle: rank 1 ended with exit status 7\n"),
      });
    });

    test("an uncaught error is shown once, the cause first", async () => {
      const { status, stdout, stderr } = await ended(
        ["-n", "2"],
        "1/sleep:400",
        "1/throw:the cause",
        "0/peer:rank 1 closed",
      );
      expect(status).toBe(1);
      expect(lines(stdout + stderr)[0]).toBe("heddle: rank 1 failed: the cause");
      expect((stdout + stderr).match(/TypeError: the cause/g)).toHaveLength(1);
      expect(stdout + stderr).toContain("  then rank 0 failed: rank 1 closed");
    });

    test("a killed worker ends the others, and is reported with its step", async () => {
      const folder = newFolder();
      const run = heddle(["-n", "2"], script, [`pid:${folder}`, "1/step:57", "1/sleep:200", "1/kill", "hang"]);
      const pids = await desk.pids(folder, 2);
      const { status, stdout, stderr } = await run.ended;
      expect(status).toBe(137);
      expect(lines(stdout + stderr)[0]).toBe("heddle: rank 1 was killed by SIGKILL after the launch of step 57");
      expect(await allGone(pids, 5000)).toBe(true);
    });

    test("a failed run starts again from its last checkpoint, and ends with the bits of an undisturbed one", async () => {
      const directory = join(newFolder(), "checkpoints");
      const options = JSON.stringify({ epochs: 100, directory, every: 5 });
      const run = heddle(["-n", "2", "--restarts", "2"], workload, [options]);
      await run.seen(/step 50 loss/);
      const [, pid] = /worker 1 is process (\d+)/.exec(run.output()) as unknown as [string, string];
      process.kill(Number(pid), "SIGKILL");
      const { status, stdout, stderr } = await run.ended;
      const all = stdout + stderr;
      expect(all).toMatch(/heddle: rank 1 was killed by SIGKILL after the launch of step \d+/);
      expect(all).toContain("heddle: starting again from the last checkpoint, 1 of at most 2 times");
      expect(status).toBe(0);
      expect(all.match(/worker 0 is process/g)).toHaveLength(2);
      expect(all.match(/^step 1 loss/gm)).toHaveLength(1);
      expect(all).toContain(`digest ${undisturbed}\n`);
    });

    test("a second failure in a row is the last where one restart is allowed", async () => {
      const args = ["env:HEDDLE_EPOCH,HEDDLE_RESUME", "1/exit:4", "hang"];
      const { status, stdout } = await ended(["-n", "2", "--restarts", "1"], ...args);
      expect(status).toBe(4);
      // Lines of the two ranks come in any order.
      expect(lines(stdout).filter((line) => line.startsWith("[rank 1] "))).toEqual([
        "[rank 1] HEDDLE_EPOCH=0",
        "[rank 1] HEDDLE_RESUME=undefined",
        "[rank 1] HEDDLE_EPOCH=1",
        "[rank 1] HEDDLE_RESUME=1",
      ]);
    });

    test("SIGUSR2 lets a training save a checkpoint first, with which it goes on", async () => {
      const directory = join(newFolder(), "checkpoints");
      const options = JSON.stringify({ epochs: 100, directory, every: 100_000 });
      const run = heddle(["-n", "2"], workload, [options]);
      await run.seen(/step 50 loss/);
      run.child.kill("SIGUSR2");
      expect((await run.ended).status).toBe(140);
      expect(readdirSync(directory).filter((name) => name.endsWith(".safetensors"))).toHaveLength(1);
      const { status, stdout } = await heddle(["-n", "2", "--resume"], workload, [options]).ended;
      expect(status).toBe(0);
      expect(stdout).not.toContain("step 1 loss");
      expect(stdout).toContain(`digest ${undisturbed}\n`);
    });

    test.skipIf(ground.outlivesCommand)("a killed launcher takes its workers along", async () => {
      const folder = newFolder();
      const run = heddle(["-n", "2"], script, [`pid:${folder}`, "hang"]);
      const pids = await desk.pids(folder, 2);
      run.child.kill("SIGKILL");
      await run.ended;
      expect(await allGone(pids, 10_000)).toBe(true);
    });

    test("32 ranks on one host", async () => {
      const { status, stdout } = await ended(["-n", "32", "-t", "1", "--prefix", "all"], "env:RANK,LOCAL_RANK", "join");
      expect(status).toBe(0);
      const expected = Array.from({ length: 32 }, (_unused, rank) => [
        `[rank ${rank}] RANK=${rank}`,
        `[rank ${rank}] LOCAL_RANK=${rank}`,
      ]);
      expect(sorted(stdout)).toEqual(expected.flat().sort());
    });
  });
}

/** Of the workload with 100 epochs, in two processes. */
const undisturbed = "406948876";
