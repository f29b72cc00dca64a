/** Checkpoints of pipelines whose stages are processes: interrupted, a stage killed, taken up by another mesh. */
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { loadNative } from "../../src/executors/native/binding.ts";
import { type Ended, started } from "../cli/heddle-process.ts";
import { expectClose } from "../support/close.ts";
import { isWhole } from "../support/sample.ts";

const script = fileURLToPath(new URL("./scripts/run.ts", import.meta.url));

let directory = "";
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "heddle-stages-"));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

/** Runs the training of two stages, or of none; `interrupt` sends SIGINT once it is under way. */
async function run(
  workers: number,
  settings: object,
  flags: readonly string[] = [],
  interrupt = false,
): Promise<Ended> {
  const own = ["run", script, "--workers", String(workers), ...flags];
  const { child, ended, until } = started([...own, "--", JSON.stringify({ epochs: 6, ...settings })]);
  if (interrupt) {
    await until("under way");
    child.kill("SIGINT");
  }
  return ended;
}

interface Told {
  readonly losses: number[];
  readonly accuracy: number;
  readonly steps: number;
  readonly hash: string;
}

async function trained(workers: number, settings: object, ...flags: string[]): Promise<Told> {
  const { status, stdout, stderr } = await run(workers, settings, flags);
  expect(status, stderr).toBe(0);
  return JSON.parse(stdout.split("\n").find((line) => line.startsWith("{")) as string) as Told;
}

/** Checkpoints: in one file, or in parts. */
const written = (): string[] => readdirSync(directory).filter((name) => /^step-\d+(\.safetensors)?$/.test(name));

describe.skipIf("error" in loadNative())("two stages in two processes", { timeout: 240_000 }, () => {
  test("interrupted, or one of them killed: what goes on has the bits of a run that never stopped", async () => {
    const whole = await trained(2, { pipeline: true });
    const endings = [
      () => run(2, { pipeline: true, directory, slow: 20 }, [], true),
      () => run(2, { pipeline: true, directory, slow: 20, dies: 1 }),
      () => run(2, { pipeline: true, directory, slow: 20, dies: 0 }),
    ];
    // By a signal; and the death of each of the two in `npm run test:grids`, of one of them here.
    for (const end of isWhole() ? endings : endings.slice(0, 2)) {
      expect((await end()).status).not.toBe(0);
      expect(written().length).toBeGreaterThan(0);
      const { losses, ...others } = await trained(2, { pipeline: true, directory }, "--resume");
      expect(losses.length).toBeGreaterThan(0);
      expect(losses).toEqual(whole.losses.slice(whole.losses.length - losses.length));
      expect(others).toEqual({ hash: whole.hash, steps: whole.steps, accuracy: whole.accuracy });
      rmSync(directory, { recursive: true });
    }
  });

  test("go on in one process without stages, and the reverse", async () => {
    const whole = await trained(1, {});
    for (const [first, second] of [
      [true, false],
      [false, true],
    ] as const) {
      await trained(first ? 2 : 1, { epochs: 2, pipeline: first, directory });
      const resumed = await trained(second ? 2 : 1, { pipeline: second, directory }, "--resume");
      expect(resumed.steps).toBe(whole.steps);
      expectClose(resumed.losses, whole.losses.slice(8), 1e-9);
      rmSync(directory, { recursive: true });
    }
  });
});
