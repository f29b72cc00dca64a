import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, describe, expect, test } from "vitest";
import { missing } from "../native/evaluate.ts";
import { isWhole } from "../support/sample.ts";
import { randomFrom } from "../support/tensors.ts";
import { finished, heddle, isAlive, workerIds, workload } from "./command.ts";

const folder = mkdtempSync(join(tmpdir(), "heddle-e2e-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const seed = Number(process.env["HEDDLE_TEST_SEED"] ?? Date.now() % 1e6);
const random = randomFrom(seed);

/** Kills of each kind: ten by `npm run test:kills`. */
const rounds = isWhole() ? 10 : 4;

const twoWorkers = (options: object, ...flags: string[]): string[] => [
  "run",
  workload,
  "--workers",
  "2",
  ...flags,
  "--",
  JSON.stringify(options),
];

describe.skipIf(missing !== undefined)(`two workers (seed ${seed})`, () => {
  test("a worker killed at random moments ends the command, naming rank, signal and collective or step", async () => {
    for (let round = 0; round < rounds; round++) {
      const command = heddle(twoWorkers({ batch: 256, rows: 2048 }), {
        HEDDLE_TRANSPORT: round % 3 === 0 ? "tcp" : "shared",
        HEDDLE_OVERLAP: round % 5 < 3 ? "all" : "off",
      });
      await command.seen(/step 2 loss/);
      await sleep(random() * 300);
      const ids = workerIds(command.output());
      const rank = round % 2;
      process.kill(ids.get(rank) as number, "SIGKILL");
      const { status, milliseconds } = await command.ended();
      const output = command.output();
      expect(milliseconds, output).toBeLessThan(5000);
      expect(status, output).not.toBe(0);
      expect(output).toMatch(new RegExp(`rank ${rank} was killed by SIGKILL`));
      expect(output).toMatch(/during \w+ .*|the launch of step \d+/);
      // One number for the step, not that of the record beside it.
      expect(output).not.toMatch(/, step \d+\)/);
      for (const pid of ids.values()) expect(isAlive(pid)).toBe(false);
    }
  }, 180_000);

  test("everything killed at random moments while checkpoints are written: resuming works each time", async () => {
    const directory = join(folder, "killed");
    const options = { epochs: 100000, directory, every: 3 };
    for (let round = 0; round < rounds; round++) {
      const command = heddle(twoWorkers(options, ...(round === 0 ? [] : ["--resume"])));
      // Some kills come before the first checkpoint of a run, most while one is written.
      await command.seen(/worker 1 is process/);
      await sleep(400 + random() * 1200);
      const ids = workerIds(command.output());
      for (const pid of [...ids.values(), command.process.pid as number]) {
        try {
          process.kill(pid, "SIGKILL");
        } catch {}
      }
      await command.ended();
      expect(command.output()).not.toMatch(/Error/);
    }
    const last = await finished(twoWorkers({ ...options, epochs: 1 }, "--resume"));
    expect(last.status, last.output).toBe(0);
    expect(readdirSync(directory).filter((name) => name.includes(".tmp"))).toEqual([]);
  }, 180_000);

  test("Ctrl-C ends everything within two seconds with status 130 and leaves no process", async () => {
    const command = heddle(twoWorkers({}));
    await command.seen(/step 4 loss/);
    command.process.kill("SIGINT");
    const { status, milliseconds } = await command.ended();
    expect(milliseconds).toBeLessThan(2000);
    expect(status).toBe(130);
    for (const pid of workerIds(command.output()).values()) expect(isAlive(pid)).toBe(false);
  }, 60_000);
});
