import { type ChildProcessByStdio, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, expect, test } from "vitest";
import { latestCheckpoint } from "../../src/checkpoints/index.ts";
import { bundled } from "../support/bundled.ts";
import { expectWhole } from "./file-state.ts";

const folder = mkdtempSync(join(tmpdir(), "heddle-kill-"));
let child: ChildProcessByStdio<null, Readable, null> | undefined;
afterAll(() => {
  child?.kill("SIGKILL");
  rmSync(folder, { recursive: true, force: true });
});

const program = bundled(new URL("./file-kill-child.ts", import.meta.url));

/** Starts a writer, kills it after `delay` milliseconds of writing, and returns what it said. */
async function writeUntilKilled(delay: number): Promise<{ start: number; saved: number }> {
  const writer = spawn(process.execPath, [program, folder], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  child = writer;
  const closed = once(writer, "close");
  let output = "";
  writer.stdout.setEncoding("utf8");
  writer.stdout.on("data", (text: string) => {
    output += text;
  });
  while (!output.includes("start")) {
    expect(writer.exitCode, "the writer ended by itself").toBeNull();
    await Promise.race([once(writer.stdout, "data"), closed, sleep(1000)]);
  }
  await sleep(delay);
  writer.kill("SIGKILL");
  const [, signal] = await closed;
  expect(signal).toBe("SIGKILL");
  const steps = [...output.matchAll(/saved (\d+)\n/g)].map((match) => Number(match[1]));
  return { start: Number(/start (\d+)/.exec(output)?.[1]), saved: steps.at(-1) ?? 0 };
}

test("killed at 20 random moments, the last checkpoint is whole and none that was acknowledged is lost", {
  timeout: 120_000,
}, async () => {
  let before = 0;
  let files = 0;
  let temporaries = 0;
  for (let round = 0; round < 20; round++) {
    const delay = Math.random() * 60;
    const { start, saved } = await writeUntilKilled(delay);
    temporaries += readdirSync(folder).filter((name) => name.includes(".tmp-")).length;
    const { checkpoint, warnings } = await latestCheckpoint(folder);
    const what = `round ${round}, killed after ${delay.toFixed(1)} ms`;
    expect(warnings, what).toEqual([]);
    expect(start, what).toBe(before);
    const step = checkpoint?.step ?? 0;
    expect(step, what).toBeGreaterThanOrEqual(Math.max(saved, before));
    if (checkpoint !== undefined) expectWhole(checkpoint, step, 500_000);
    // What the dead writer left is gone. Each kill between a commit and the removal that follows leaves one file more.
    const left = readdirSync(folder);
    expect(
      left.filter((name) => !/^step-\d{8}\.safetensors$/.test(name)),
      what,
    ).toEqual([]);
    expect(left.length, what).toBeLessThanOrEqual(Math.max(2, files) + 1);
    files = left.length;
    before = step;
  }
  // Otherwise the kills were not in the middle of writes.
  expect(temporaries).toBeGreaterThan(0);
  expect(before).toBeGreaterThan(0);
});
