/**
 * @module Sharded, asynchronous saves beside PyTorch Distributed Checkpoint: how long a save stalls a step, and the bandwidths of saves and
 * loads, of gpt's state and of a large one. The peers take turns.
 *
 *     npm run bench:checkpoints                    # 2 and 4 processes, 3 turns, among the temporary files
 *     npm run bench:checkpoints -- /dev/shm 2 5    # in that folder, 2 processes, 5 turns
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { peerFile, pythonEnvironment, root } from "./commands.ts";
import { type ParameterShape, parameterShapes, workloadData } from "./kinds/index.ts";
import type { Spec } from "./peers/link.ts";
import { trainingSpec, twoWorkloads, type Workload } from "./workloads.ts";

/** Milliseconds of each save and load. */
export interface SaveTimes {
  /** What a save holds up the training. */
  readonly stall: number[];
  /** From the start of a save until it is committed. */
  readonly save: number[];
  readonly load: number[];
  /** Saves that are not asynchronous, of peers that have them. */
  readonly whole?: number[];
}

/** What a peer measures. */
export interface Measurement {
  readonly folder: string;
  readonly saves: number;
  /** The training whose steps are the measure of a stall. */
  readonly gpt: Spec;
  /** Parameters of each state, which also has both moments of Adam. */
  readonly states: Readonly<Record<string, readonly ParameterShape[]>>;
}

interface Found {
  /** Steps of gpt. */
  readonly step?: number[];
  readonly states?: Readonly<Record<string, SaveTimes>>;
}

const [place = tmpdir(), counts = "2,4", turns = "3"] = process.argv.slice(2);
const python = join(root, ".heddle", "bench", "bin", "python");
const work = mkdtempSync(join(place, "heddle-checkpoints-"));
process.once("exit", () => rmSync(work, { recursive: true, force: true }));

const gpt = twoWorkloads.find(({ name }) => name === "gpt-fsdp") as Workload;
const { sizes } = gpt;
const data = join(work, "gpt.bin");
writeFileSync(data, workloadData(sizes));
const states: Measurement["states"] = {
  gpt: parameterShapes(sizes),
  large: Array.from({ length: 10 }, (_unused, index) => [`${index}.weight`, [2048, 2048]] as const),
};
const bytesOf = (name: string): number =>
  12 * (states[name] ?? []).reduce((sum, [, shape]) => sum + shape.reduce((product, size) => product * size, 1), 0);

type Start = (file: string, processes: number) => [program: string, args: string[], env: object];

const heddle =
  (program: string): Start =>
  (file, processes) => [
    process.execPath,
    [
      join(root, "bin", "heddle.js"),
      ...["run", peerFile(program), "--workers", `${processes}`, "--threads", "1", "--", file],
    ],
    {},
  ];

const peers: Record<string, Start> = {
  heddle: heddle("checkpoints.ts"),
  dcp: (file, processes) => [
    python,
    [
      ...["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", `${processes}`],
      ...[peerFile("checkpoints.py"), file],
    ],
    pythonEnvironment("torch-tuned", 1, python),
  ],
  steps: heddle("gpt-steps.ts"),
};

/** Runs a peer once. */
async function run(name: string, processes: number): Promise<Found> {
  const folder = join(work, name);
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder);
  const file = join(folder, "measurement.json");
  const measurement: Measurement = { folder, saves: 3, gpt: trainingSpec({ ...gpt, processes }, data), states };
  writeFileSync(file, JSON.stringify(measurement));
  const [program, args, env] = (peers[name] as (typeof peers)[string])(file, processes);
  const child = spawn(program, args, { cwd: root, env: { ...process.env, ...env }, stdio: ["ignore", "pipe", "pipe"] });
  const stop = (): void => void child.kill("SIGTERM");
  process.once("exit", stop);
  let tail = "";
  for (const stream of [child.stdout, child.stderr])
    stream.on("data", (bytes: Buffer) => {
      tail = (tail + bytes.toString()).slice(-3000);
    });
  const [status] = await once(child, "close");
  process.off("exit", stop);
  if (status !== 0) throw new Error(`${name} ended with status ${status}:\n${tail}`);
  return JSON.parse(readFileSync(join(folder, "times.json"), "utf8")) as Found;
}

const median = (all: readonly number[]): number => [...all].sort((a, b) => a - b)[all.length >> 1] as number;
const least = (all: readonly number[]): number => Math.min(...all);

for (const processes of counts.split(",").map(Number)) {
  const found: Record<string, Found[]> = {};
  for (let turn = 0; turn < Number(turns); turn++)
    for (const name of Object.keys(peers))
      if (name !== "dcp" || existsSync(python)) found[name] = [...(found[name] ?? []), await run(name, processes)];
  const step = median((found["steps"] ?? []).flatMap((one) => one.step ?? []));
  console.log(`${processes} processes; a step of gpt, fully sharded: ${step.toFixed(0)} ms`);
  for (const name of Object.keys(states)) {
    const bytes = bytesOf(name);
    const of = (peer: string, what: keyof SaveTimes): number[] =>
      (found[peer] ?? []).flatMap((one) => one.states?.[name]?.[what] ?? []);
    // The peer's better way to save counts.
    const saves = (peer: string): number[] =>
      median(of(peer, "whole")) < median(of(peer, "save")) ? of(peer, "whole") : of(peer, "save");
    const line = (title: string, times: (peer: string) => number[], shown: (ms: number) => string): void => {
      const [ours, theirs] = [times("heddle"), times("dcp")];
      const parts = [`heddle ${shown(median(ours))} (best ${shown(least(ours))})`];
      if (theirs.length > 0) {
        parts.push(`dcp ${shown(median(theirs))} (best ${shown(least(theirs))})`);
        parts.push(`heddle is ${(median(theirs) / median(ours)).toFixed(2)} times as fast`);
      }
      console.log(`  ${title.padEnd(6)}${parts.join(", ")}`);
    };
    const bandwidth = (ms: number): string => `${(bytes / ms / 1000).toFixed(0)} MB/s`;
    console.log(` ${name}, ${(bytes / 1e6).toFixed(0)} MB`);
    line(
      "stall",
      (peer) => of(peer, "stall"),
      (ms) => `${ms.toFixed(1)} ms`,
    );
    console.log(`        ${((100 * median(of("heddle", "stall"))) / step).toFixed(1)} % of a step of gpt`);
    line("save", saves, bandwidth);
    line("load", (peer) => of(peer, "load"), bandwidth);
  }
}
