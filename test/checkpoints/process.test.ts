/** Checkpoints in parts by real workers: resumed by other numbers of workers and other layouts. */
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { latestCheckpoint, listCheckpoints, openCheckpoint } from "../../src/checkpoints/index.ts";
import { loadNative } from "../../src/executors/native/binding.ts";
import { started } from "../cli/heddle-process.ts";

const script = fileURLToPath(new URL("../train/scripts/run.ts", import.meta.url));
const native = !("error" in loadNative());

let directory = "";
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "heddle-parts-run-"));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

interface Told {
  readonly losses: number[];
  readonly steps: number;
  readonly hash: string;
}

interface Ended {
  readonly status: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

const run = (workers: number, settings: object, ...flags: string[]): Promise<Ended> =>
  started(["run", script, "--workers", String(workers), ...flags, "--", JSON.stringify(settings)]).ended;

async function trained(workers: number, settings: object, ...flags: string[]): Promise<Told> {
  const { status, stdout, stderr } = await run(workers, settings, ...flags);
  expect(status, stderr).toBe(0);
  return JSON.parse(stdout.split("\n").find((line) => line.startsWith("{")) as string) as Told;
}

const steps = (): string[] => readdirSync(directory).sort();

/** A model in f64 whose parameters all workers shard; 4 steps an epoch. */
const base = { every: 2 };
const all = { layout: "all" };

describe.skipIf(!native)("workers", { timeout: 120_000 }, () => {
  test("write parts where values are sharded, and other numbers of workers and layouts go on with the same losses", async () => {
    const settings = { ...base, directory };
    const whole = await trained(1, { epochs: 4 });
    const parts: Told[] = [];
    for (const [workers, more] of [
      [4, { ...all, epochs: 1 }],
      [2, { ...all, epochs: 2 }],
      [3, { ...all, epochs: 3, axes: { data: 3 } }],
      [2, { layout: "dense", epochs: 4, axes: { model: 2 } }],
    ] as const) {
      parts.push(await trained(workers, { ...settings, ...more }, ...(parts.length === 0 ? [] : ["--resume"])));
      expect(
        steps().every((name) => /^step-\d{8}$/.test(name)),
        `${steps()}`,
      ).toBe(true);
    }
    const losses = parts.flatMap((part) => part.losses);
    expect(losses).toHaveLength(whole.losses.length);
    for (const [step, loss] of losses.entries())
      expect(Math.abs(loss - (whole.losses[step] as number)), `step ${step}`).toBeLessThan(1e-9);
    const newest = join(directory, steps().at(-1) as string);
    const checkpoint = await openCheckpoint(newest);
    await checkpoint.verify();
    await checkpoint.close();
    const files = readdirSync(newest).filter((name) => name.endsWith(".safetensors"));
    expect(files).toHaveLength(2);
  });

  test("a resumed run of as many workers has the bits of one that was never interrupted", async () => {
    const settings = { ...base, ...all, epochs: 3 };
    const whole = await trained(2, { ...all, epochs: 3 });
    await trained(2, { ...settings, directory, epochs: 1 });
    expect((await trained(2, { ...settings, directory }, "--resume")).hash).toBe(whole.hash);
  });

  test("one that is damaged for one worker alone is left out by all, and the one before is taken", async () => {
    const settings = { ...base, ...all, directory, epochs: 1 };
    await trained(2, settings);
    const newest = join(directory, steps().at(-1) as string);
    const part = readdirSync(newest).find((name) => name.startsWith("part-00001")) as string;
    const bytes = readFileSync(join(newest, part));
    bytes.writeUInt8(bytes.readUInt8(bytes.length - 1) ^ 1, bytes.length - 1);
    writeFileSync(join(newest, part), bytes);
    const { status, stdout, stderr } = await run(2, settings, "--resume");
    expect(status, stderr).toBe(0);
    expect(`${stdout}${stderr}`).toMatch(/does not match its CRC32C.*; taking the checkpoint before it/);
    expect(`${stdout}${stderr}`).toContain(`resuming from ${join(directory, steps()[0] as string)}`);
  });

  test("a part that one worker cannot write is the same error for all, at the next save; what is there stays", async () => {
    const failing = fileURLToPath(new URL("./scripts/failing.ts", import.meta.url));
    const { status, stdout, stderr } = await started(["run", failing, "--workers", "2", "--", directory, "6"]).ended;
    expect(status, stderr).toBe(3);
    expect(stdout).toContain("rank 1: the disk of rank 1 is gone");
    const told = "rank 1 could not write its part of the checkpoint of step 6: the disk of rank 1 is gone";
    expect(`${stdout}${stderr}`).toContain(told);
    const { checkpoint, warnings } = await latestCheckpoint(join(directory, "run"), { clean: false });
    expect(warnings).toEqual([]);
    expect(checkpoint?.step).toBe(4);
  });

  test("a folder that not all workers see is an error before the first write", async () => {
    const failing = fileURLToPath(new URL("./scripts/failing.ts", import.meta.url));
    const { status, stdout, stderr } = await started(["run", failing, "--workers", "2", "--", directory]).ended;
    expect(status, stderr).toBe(3);
    for (const rank of [0, 1])
      expect(`${stdout}${stderr}`).toContain(`rank ${rank}: rank 1 does not see what rank 0 writes to ${directory}`);
    expect(await listCheckpoints(join(directory, "rank-0", "run"))).toEqual([]);
  });
});
