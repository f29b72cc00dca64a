/** A run whose machine is taken away: the training saves a checkpoint in the time it gets, and the status says that it can be resumed. */
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { finished, heddle } from "../e2e/command.ts";

const script = fileURLToPath(new URL("../elastic/scripts/training.ts", import.meta.url));

/** Rows: how the end is announced, flags, and what ends it. */
const rows: [string, (folder: string) => string[], (pid: number, folder: string) => void][] = [
  ["SIGTERM with --grace", () => ["--workers", "2", "--grace", "20"], (pid) => process.kill(pid, "SIGTERM")],
  [
    "SIGTERM, elastic",
    () => ["--workers", "1:2", "--restarts", "2", "--grace", "20"],
    (pid) => process.kill(pid, "SIGTERM"),
  ],
  [
    "a notice",
    (folder) => ["--workers", "1", "--notice", join(folder, "notice")],
    (_pid, folder) => writeFileSync(join(folder, "notice"), ""),
  ],
];

test.each(rows)("%s", async (_name, flags, end) => {
  const folder = mkdtempSync(join(tmpdir(), "heddle-test-"));
  try {
    const args = ["--", "", "plain checkpoint", "100", folder];
    const run = heddle(["run", script, "--threads", "1", ...flags(folder), ...args], { TMPDIR: folder });
    await run.seen(/epoch 1\/4/);
    end(run.process.pid as number, folder);
    const { status } = await run.ended();
    expect({ status, output: run.output() }).toEqual({ status: 140, output: run.output() });
    expect(existsSync(join(folder, "result.json"))).toBe(false);
    const again = ["--", "", "plain checkpoint", "0", folder];
    const resumed = await finished(["run", script, "--threads", "1", "--resume", ...again], { TMPDIR: folder });
    expect(resumed.output).toMatch(/resuming from .*checkpoints/);
    const whole = mkdtempSync(join(tmpdir(), "heddle-test-"));
    await finished(["run", script, "--threads", "1", "--", "", "plain", "0", whole], { TMPDIR: whole });
    const losses = (place: string): number[] =>
      (JSON.parse(readFileSync(join(place, "result.json"), "utf8")) as { losses: number[] }).losses;
    losses(folder).forEach((loss, index) => {
      expect(loss).toBeCloseTo(losses(whole)[index] as number, 12);
    });
    rmSync(whole, { recursive: true, force: true });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});

test("too little time: the workers are ended, and the status is that of SIGTERM", async () => {
  const folder = mkdtempSync(join(tmpdir(), "heddle-test-"));
  const args = ["--", "", "plain checkpoint", "4000", folder];
  const run = heddle(["run", script, "--threads", "1", "--workers", "2", "--grace", "2", ...args], { TMPDIR: folder });
  await run.seen(/all-reduce/);
  process.kill(run.process.pid as number, "SIGTERM");
  expect((await run.ended()).status).toBe(143);
  rmSync(folder, { recursive: true, force: true });
});
