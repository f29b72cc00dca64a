/** One training through a hundred kills at random instants: its losses are those of an undisturbed run. npm run test:kills. */
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { finished, heddle } from "../e2e/command.ts";
import { numbers } from "./simulator.ts";

const script = fileURLToPath(new URL("./scripts/training.ts", import.meta.url));
const kills = 100;

const losses = (folder: string): number[] =>
  (JSON.parse(readFileSync(join(folder, "result.json"), "utf8")) as { losses: number[] }).losses;

const children = (pid: number): number[] => {
  try {
    return execFileSync("pgrep", ["-P", String(pid)], { encoding: "utf8" })
      .trim()
      .split("\n")
      .map(Number);
  } catch {
    return [];
  }
};

test("a hundred kills", { timeout: 1_500_000 }, async () => {
  const folder = mkdtempSync(join(tmpdir(), "heddle-test-"));
  const args = (pause: number): string[] => ["--threads", "1", "--", "", "plain 300", String(pause), folder];
  try {
    await finished(["run", script, ...args(0)], { TMPDIR: folder });
    const undisturbed = losses(folder);
    rmSync(join(folder, "result.json"));
    const run = heddle(["run", script, "--workers", "1:3", "--restarts", "1000", ...args(100)], { TMPDIR: folder });
    await run.seen(/epoch 1\/300/);
    const next = numbers(1);
    const launcher = run.process.pid as number;
    let killed = 0;
    while (killed < kills && run.process.exitCode === null) {
      await sleep(300 + 2400 * next());
      const alive = children(launcher);
      // One is left, so that the newest values are in a memory.
      if (alive.length < 2) continue;
      const victim = alive[Math.floor(next() * alive.length)] as number;
      // The next one is killed when the training goes on again, or before.
      process.kill(victim, "SIGKILL");
      killed++;
    }
    const { status } = await run.ended();
    expect({ killed, status, output: run.output().slice(-2000) }).toMatchObject({ killed: kills, status: 0 });
    losses(folder).forEach((loss, index) => {
      expect(loss).toBeCloseTo(undisturbed[index] as number, 9);
    });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
