/**
 * @module What sharding costs: steps of fully sharded trainings beside those of data parallel ones, in turns in the same two processes, one
 * thread each, over shared memory. Prints medians and their ratio, which is to stay below 1.1 where links are fast.
 *
 *     npm run bench:sharding                  # lenet, resnet20 and gpt, 5 turns of 5 steps
 *     npm run bench:sharding -- gpt,wide 9 3  # others, 9 turns of 3 steps; wide: 8 layers of 1024 x 1024
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { peerFile, root } from "./commands.ts";
import { workloadData } from "./kinds/index.ts";
import type { Spec } from "./peers/link.ts";
import { trainingSpec, twoWorkloads, type Workload } from "./workloads.ts";

/** What the two processes do, and where rank 0 writes {@link Turns}. */
export interface Alternation {
  readonly trainings: readonly Spec[];
  readonly turns: number;
  readonly steps: number;
  readonly out: string;
}

/** Milliseconds of the steps: of each turn, of each training. */
export type Turns = readonly (readonly (readonly number[])[])[];

const [names = "lenet,resnet20,gpt", turns = "5", steps = "5"] = process.argv.slice(2);
const processes = 2;

const wide: Workload = {
  name: "wide-dp",
  title: "8 layers of 1024 x 1024, batch 256",
  sizes: { kind: "mlp", batch: 256, widths: Array.from({ length: 9 }, () => 1024) },
  optimizer: { kind: "adamW", learningRate: 1e-3 },
  processes,
};
const pairs = [...twoWorkloads, wide, { ...wide, name: "wide-fsdp", sharded: true as const }];

function workloadNamed(name: string): Workload {
  const known = pairs.find((workload) => workload.name === name);
  if (known !== undefined) return known;
  const all = pairs.filter((workload) => workload.sharded).map((workload) => workload.name.replace("-fsdp", ""));
  throw new Error(`there is no training '${name.replace(/-\w+$/, "")}': there are ${all.join(", ")}`);
}

const median = (all: readonly number[]): number => [...all].sort((a, b) => a - b)[all.length >> 1] as number;

/** Runs both trainings of a name. */
async function alternate(folder: string, name: string): Promise<Turns> {
  const workloads = ["dp", "fsdp"].map((kind) => workloadNamed(`${name}-${kind}`));
  const data = join(folder, "data.bin");
  writeFileSync(data, workloadData((workloads[0] as Workload).sizes));
  const trainings = workloads.map((workload) => trainingSpec(workload, data));
  const [file, out] = [join(folder, "alternation.json"), join(folder, "times.json")];
  const asked: Alternation = { trainings, turns: Number(turns), steps: Number(steps), out };
  writeFileSync(file, JSON.stringify(asked));
  const command = [join(root, "bin", "heddle.js"), "run", peerFile("sharding.ts")];
  const args = [...command, "--workers", `${processes}`, "--threads", "1", "--", file];
  const child = spawn(process.execPath, args, { cwd: root, stdio: ["ignore", "ignore", "inherit"] });
  const stop = (): void => void child.kill("SIGTERM");
  process.once("exit", stop);
  const [status] = await once(child, "close");
  process.off("exit", stop);
  if (status !== 0) throw new Error(`the trainings of ${name} ended with status ${status}`);
  return JSON.parse(readFileSync(out, "utf8")) as Turns;
}

const folder = mkdtempSync(join(tmpdir(), "heddle-sharding-"));
process.once("exit", () => rmSync(folder, { recursive: true, force: true }));
for (const name of names.split(",")) {
  const times = await alternate(folder, name);
  const of = (training: number): number[] => times.map((turn) => median(turn[training] as readonly number[]));
  const [whole, sharded] = [of(0), of(1)];
  // Of the same turn, so that other work on the machine is in both.
  const ratios = sharded.map((time, turn) => time / (whole[turn] as number));
  const shown = (all: readonly number[]): string =>
    `${median(all).toFixed(1)} ms (best ${Math.min(...all).toFixed(1)})`;
  const ratio = `ratio ${median(ratios).toFixed(2)} (best over best ${(Math.min(...sharded) / Math.min(...whole)).toFixed(2)})`;
  console.log(`${name.padEnd(9)}data parallel ${shown(whole)}, fully sharded ${shown(sharded)}, ${ratio}`);
}
