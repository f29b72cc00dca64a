/** Batch jobs of a real Slurm: the script of `heddle launch slurm`, queued again, pre-empted, cancelled. `npm run test:engines` */
import { existsSync, mkdtempSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { allGone, Desk } from "./desk.ts";
import { grounds } from "./grounds.ts";

const workload = fileURLToPath(new URL("../e2e/workload.ts", import.meta.url));
const ground = grounds.find(({ name }) => name === "Slurm") as (typeof grounds)[number];
const lacks = ground.lacks();
const epochs = 400;

describe.skipIf(lacks !== undefined)(`batch jobs of Slurm${lacks === undefined ? "" : ` (${lacks})`}`, () => {
  let desk: Desk;
  let variables: Record<string, string>;
  let digest: string;

  beforeAll(async () => {
    desk = new Desk();
    variables = await ground.open(desk);
    const run = [process.execPath, "bin/heddle.js", "run", workload, "-n", "2", "--", JSON.stringify({ epochs })];
    digest = /^digest \d+$/m.exec(await desk.call(run))?.[0] as string;
  }, 180_000);
  afterAll(() => desk?.dispose(), 60_000);

  /** Submits the script of `heddle launch slurm` for a training in a folder of its own. */
  async function submit(options: object): Promise<{ job: string; folder: string; output: () => string }> {
    const folder = mkdtempSync(join(desk.folder, "job-"));
    const script = join(folder, "train.sbatch");
    const args = JSON.stringify({ epochs, directory: join(folder, "checkpoints"), ...options });
    const words = ["launch", "slurm", workload, "--workers", "2", "--notice", "20", "--out", script, "--", args];
    await desk.call([process.execPath, "bin/heddle.js", ...words]);
    const said = await desk.call(["sbatch", "--chdir", folder, script], variables);
    const job = /^Submitted batch job (\d+)$/m.exec(said)?.[1] as string;
    const file = join(folder, `workload.ts-${job}.out`);
    return { job, folder, output: () => (existsSync(file) ? readFileSync(file, "utf8") : "") };
  }

  const state = async (job: string): Promise<string> => {
    const { stdout } = await desk.start(["scontrol", "show", "job", job], variables).ended;
    return stdout;
  };

  /** Waits for a fact; fails with the job's state and output. */
  async function until(
    fact: () => boolean | Promise<boolean>,
    { job, output }: { job: string; output: () => string },
  ): Promise<void> {
    for (let tries = 0; tries < 600; tries++) {
      if (await fact()) return;
      await sleep(200);
    }
    throw new Error(`this did not come about: ${fact}\n${await state(job)}\n${output()}`);
  }

  /** Lets a job that was queued again start at once: Slurm makes it wait until its old credential has expired. */
  const startNow = async (job: string): Promise<void> => {
    await desk.call(["scontrol", "update", `JobId=${job}`, "StartTime=now"], variables);
  };

  const ends = (submitted: { job: string; output: () => string }, how: string): Promise<void> =>
    until(async () => new RegExp(`JobState=${how} `).test(await state(submitted.job)), submitted);

  test("a job has the bits of a run without Slurm", async () => {
    const submitted = await submit({});
    await ends(submitted, "COMPLETED");
    expect(submitted.output()).toContain(digest);
    expect(submitted.output()).toContain("[rank 1] worker 1 is process");
  });

  test("a job that is queued again resumes, with its number of restarts as the attempt", async () => {
    const submitted = await submit({ every: 5 });
    await until(() => submitted.output().includes("step 100 loss"), submitted);
    await desk.call(["scontrol", "requeue", submitted.job], variables);
    await until(async () => /JobState=PENDING /.test(await state(submitted.job)), submitted);
    await startNow(submitted.job);
    await ends(submitted, "COMPLETED");
    expect(await state(submitted.job)).toMatch(/\bRestarts=1\b/);
    const output = submitted.output();
    expect(output.match(/^step 1 loss/gm)).toHaveLength(1);
    expect(output.match(/^worker 0 is process/gm)).toHaveLength(2);
    expect(output).toContain(digest);
  });

  test("a job that is pre-empted saves a checkpoint first, and goes on from it later", async () => {
    // No other checkpoint than that of the notice.
    const submitted = await submit({ every: 1_000_000 });
    await until(() => submitted.output().includes("step 100 loss"), submitted);
    const urgent = ["sbatch", "--partition=urgent", "--nodes=2", "--exclusive", "--output=/dev/null", "--wrap=sleep 3"];
    await desk.call(urgent, variables);
    await until(() => submitted.output().includes("heddle: stopped by SIGUSR2"), submitted);
    expect(readdirSync(join(submitted.folder, "checkpoints")).filter((name) => /^step-\d+/.test(name))).toHaveLength(1);
    await until(async () => /JobState=PENDING /.test(await state(submitted.job)), submitted);
    await startNow(submitted.job);
    await ends(submitted, "COMPLETED");
    const output = submitted.output();
    expect(output.match(/^step 1 loss/gm)).toHaveLength(1);
    expect(output).toContain(digest);
  });

  test("a cancelled job leaves no worker", async () => {
    const submitted = await submit({ epochs: 1_000_000 });
    await until(() => submitted.output().includes("step 5 loss"), submitted);
    const pids = [...submitted.output().matchAll(/is process (\d+)/g)].map(([, pid]) => Number(pid));
    expect(pids).toHaveLength(2);
    await desk.call(["scancel", submitted.job], variables);
    await ends(submitted, "CANCELLED");
    expect(await allGone(pids, 20_000)).toBe(true);
  });
});
