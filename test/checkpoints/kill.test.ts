/** Two ranks that write a checkpoint in parts are killed at random instants. */
import { type ChildProcessByStdio, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Readable, Writable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, expect, test } from "vitest";
import { latestCheckpoint, openCheckpoint } from "../../src/checkpoints/index.ts";
import { bundled } from "../support/bundled.ts";
import { isWhole } from "../support/sample.ts";
import { expectParts } from "./parts-state.ts";

const folder = mkdtempSync(join(tmpdir(), "heddle-kill-parts-"));
const children: ChildProcessByStdio<Writable, Readable, null>[] = [];
afterAll(() => {
  for (const child of children) child.kill("SIGKILL");
  rmSync(folder, { recursive: true, force: true });
});

const program = bundled(new URL("./kill-child.ts", import.meta.url));
/** All 200 by `npm run test:kills`. */
const rounds = isWhole() ? 200 : 20;

/** Starts two ranks, kills both after `delay` milliseconds of writing, `between` apart; what rank 0 acknowledged last. */
async function writeUntilKilled(from: number, delay: number, between: number): Promise<number> {
  const ranks = [0, 1].map((rank) =>
    spawn(process.execPath, [program, folder, String(rank), String(from)], {
      stdio: ["pipe", "pipe", "inherit"],
    }),
  );
  children.splice(0, Infinity, ...ranks);
  const closed = ranks.map((rank) => once(rank, "close"));
  let output = "";
  const ready = ranks.map((rank) => once(rank.stdout.setEncoding("utf8"), "data"));
  await Promise.all(ready);
  ranks[0]?.stdout.on("data", (text: string) => {
    output += text;
  });
  for (const rank of ranks) rank.stdin.write("go\n");
  await sleep(delay);
  const order = Math.random() < 0.5 ? ranks : [...ranks].reverse();
  order[0]?.kill("SIGKILL");
  if (between > 0) await sleep(between);
  order[1]?.kill("SIGKILL");
  for (const [, signal] of await Promise.all(closed)) expect(signal).toBe("SIGKILL");
  return Math.max(from, ...[...output.matchAll(/saved (\d+)\n/g)].map((match) => Number(match[1])));
}

test(`killed at ${rounds} random instants, the old checkpoint or the new one is there, whole, and none that was acknowledged is lost`, {
  timeout: 900_000,
}, async () => {
  let before = 0;
  let unfinished = 0;
  for (let round = 0; round < rounds; round++) {
    const [delay, between] = [Math.random() * 300, Math.random() < 0.5 ? 0 : Math.random() * 10];
    const saved = await writeUntilKilled(before, delay, between);
    const names = readdirSync(folder);
    unfinished += names.filter((name) => !readdirSync(join(folder, name)).includes("manifest.json")).length;
    const { checkpoint, warnings } = await latestCheckpoint(folder, { clean: false });
    const what = `round ${round}, killed after ${delay.toFixed(1)} ms`;
    expect(warnings, what).toEqual([]);
    const step = checkpoint?.step ?? 0;
    expect(step, what).toBeGreaterThanOrEqual(Math.max(saved, before));
    if (checkpoint !== undefined) {
      const open = await openCheckpoint(checkpoint.path);
      await expectParts(open, step);
      await open.close();
    }
    before = step;
  }
  // Otherwise the kills were not in the middle of writes.
  expect(unfinished).toBeGreaterThan(0);
  expect(before).toBeGreaterThan(0);
  console.log(
    `${rounds} of ${rounds} kills: ${unfinished} unfinished folders were left, ${before} checkpoints written`,
  );
});
