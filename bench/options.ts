/** @module The command line of the benchmarks. */
import { parseArgs } from "node:util";
import {
  bf16Workloads,
  eagerWorkloads,
  gemmWorkloads,
  inferWorkloads,
  int8Workloads,
  linalgWorkloads,
  reduceWorkloads,
  twoWorkloads,
  type Workload,
  workloads,
} from "./workloads.ts";

/** Peers in the order of the table; Heddle comes first, as the others are compared with it. */
export const peerNames = [
  "heddle",
  "heddle-sync",
  "torch-eager",
  "torch-tuned",
  "torch-compile",
  "jax-jit",
  "onnxruntime",
  "onnxruntime-node",
  "openvino",
  "sklearn",
  "tfjs",
] as const;
export type PeerName = (typeof peerNames)[number];

/** Peers that need none of the Python packages. */
export const nodePeers: readonly PeerName[] = ["heddle", "heddle-sync", "onnxruntime-node", "tfjs"];

/** The values of `--only`: the workloads, the time from start to first step, and the accuracy of plans. */
export const measurements: readonly string[] = [...workloads.map(({ name }) => name), "start", "plans"];

/** Where a whole run is kept while it goes on. */
const wholeRun = ".heddle/bench-results/whole.json";

/** Further values of `--only`, which are not measured unless they are named. */
const named: readonly string[] = linalgWorkloads.map(({ name }) => name);

/** Names for groups of workloads. */
const namesOf = (list: readonly Workload[]): string[] => list.map(({ name }) => name);
const groups: Readonly<Record<string, readonly string[]>> = {
  gemm: namesOf(gemmWorkloads),
  reduce: namesOf(reduceWorkloads),
  infer: namesOf(inferWorkloads),
  two: namesOf(twoWorkloads),
  bf16: namesOf(bf16Workloads),
  int8: namesOf(int8Workloads),
  eager: namesOf(eagerWorkloads),
  linalg: namesOf(linalgWorkloads),
};

export interface Options {
  readonly only: readonly string[];
  readonly peers: readonly PeerName[];
  readonly threads: readonly number[];
  readonly seconds: number;
  /** Sizes for testing the harness. */
  readonly tiny: boolean;
  /** File for the results; undefined: one named by the date, in .heddle/bench-results. */
  readonly out: string | undefined;
  /** Whether the run is kept as the last whole one, and written into the page. */
  readonly whole: boolean;
  /** Whether rows that the file of the results has already are left out. */
  readonly resume: boolean;
}

/** An invalid command line. */
export class UsageError extends Error {}

export const usage = `use: npm run bench -- [options]

  --only <names>     of ${measurements.join(", ")} (default: all of these), ${named.join(", ")}; ${Object.keys(groups).join(", ")}: all that begin so
  --peers <names>    of ${peerNames.join(", ")} (default: all)
  --threads <counts> threads of every peer, such as 1 or 1,2 (default: 1,2)
  --seconds <number> of steps per peer and row of the table (default: 10)
  --quick            2 seconds each; rough ratios
  --whole            a second each, some 20 minutes on idle cores; kept in bench/last-run.json and shown in docs/benchmarks.md
  --resume           goes on with the run that --out, or --whole, has begun
  --tiny             sizes that only test the harness
  --out <file>       where the results go as JSON (default: .heddle/bench-results/<date>.json)
  --help             this text
`;

/** @throws UsageError naming the option. */
export function parseOptions(args: readonly string[]): Options | "help" {
  const text = { type: "string" } as const;
  const flag = { type: "boolean" } as const;
  let values: Partial<Record<string, string | boolean>>;
  try {
    const options = {
      only: text,
      peers: text,
      threads: text,
      seconds: text,
      out: text,
      quick: flag,
      whole: flag,
      resume: flag,
      tiny: flag,
      help: flag,
    };
    ({ values } = parseArgs({ args: [...args], options }));
  } catch (error) {
    throw new UsageError((error as Error).message);
  }
  if (values["help"] === true) return "help";
  const numbers = (name: string, fallback: string, min: number): number[] =>
    String(values[name] ?? fallback)
      .split(",")
      .map((word) => {
        const value = Number(word);
        if (Number.isFinite(value) && value >= min && word.trim() !== "") return value;
        throw new UsageError(`--${name}: '${word}' is not a number of at least ${min}`);
      });
  const threads = numbers("threads", "1,2", 1);
  if (!threads.every(Number.isInteger)) throw new UsageError("--threads: whole numbers are needed");
  const whole = values["whole"] === true;
  const out = (values["out"] as string | undefined) ?? (whole ? wholeRun : undefined);
  if (whole && values["tiny"] === true) throw new UsageError("--whole: --tiny sizes are no results");
  if (values["resume"] === true && out === undefined) throw new UsageError("--resume: which run? --out names its file");
  return {
    only: values["only"] === undefined ? measurements : names("only", values["only"], [...measurements, ...named]),
    peers: names("peers", values["peers"], peerNames) as PeerName[],
    threads,
    seconds: numbers("seconds", whole ? "1" : values["quick"] === true ? "2" : "10", 0.001)[0] as number,
    tiny: values["tiny"] === true,
    out,
    whole,
    resume: values["resume"] === true,
  };
}

function names(option: string, value: string | boolean | undefined, allowed: readonly string[]): string[] {
  if (value === undefined) return [...allowed];
  const names = String(value)
    .split(",")
    .flatMap((word) => groups[word] ?? word);
  const unknown = names.find((name) => !allowed.includes(name));
  if (unknown !== undefined) throw new UsageError(`--${option}: '${unknown}' is none of ${allowed.join(", ")}`);
  return allowed.filter((name) => names.includes(name));
}
