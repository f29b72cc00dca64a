/** @module `heddle bench`: collectives beside Gloo and MPI, in turns, on this machine. */
import { spawn } from "node:child_process";
import { extname } from "node:path";
import { fileURLToPath } from "node:url";
import { Command } from "commander";
import { HeddleError } from "../util/errors.ts";
import { nearest } from "../util/options.ts";
import { ownVariables } from "../util/settings.ts";
import { formatBytes, formatTime } from "../util/text.ts";
import { wholeNumber } from "./arguments.ts";
import { glooPeer, type Missing, mpiPeers, outputOf, type Peer, peerFolder } from "./bench-peers.ts";
import { benchPoliciesCommand } from "./bench-policies.ts";
import type { CommandContext } from "./context.ts";
import { exitStatus } from "./status.ts";
import { aligned } from "./table.ts";

/** Bytes that each rank sends at least, as a share of the size, times the number of ranks: bus bandwidth divides by what no algorithm saves. */
const shares: { readonly [collective: string]: (ranks: number) => number } = {
  allReduce: (ranks) => (2 * (ranks - 1)) / ranks,
  reduceScatter: (ranks) => (ranks - 1) / ranks,
  allGather: (ranks) => (ranks - 1) / ranks,
  allToAll: (ranks) => (ranks - 1) / ranks,
  gather: (ranks) => (ranks - 1) / ranks,
  scatter: (ranks) => (ranks - 1) / ranks,
  broadcast: () => 1,
  reduce: () => 1,
};

const defaultSizes = [4, 1024, 2 ** 14, 2 ** 17, 2 ** 20, 2 ** 24];

const notes = `
The size is that of the larger side of a rank: of an all-gather the result, of a reduce-scatter the input. Bandwidths are
10^9 bytes per second: "alg" is the size by the time, "bus" that times the share that each rank must send at least, such as
2(n-1)/n for an all-reduce, so that numbers of ranks compare. Times are the best of all rounds; a round runs each peer once.

"heddle" is a collective in a compiled function, as in training; "heddle call" is a call from JavaScript that is awaited.
The data are f32. Peers: Gloo through the PyTorch of --python, and every MPI whose mpicc and mpiexec are there.
`;

interface Flags {
  readonly workers: number;
  readonly collectives: readonly string[];
  readonly sizes: readonly number[];
  readonly rounds: number;
  readonly milliseconds: number;
  readonly python: string;
  readonly peers: readonly string[];
  readonly json?: boolean;
}

/** The best time of a collective by an implementation. */
export interface Measured {
  readonly collective: string;
  readonly bytes: number;
  readonly name: string;
  readonly seconds: number;
  /** Bytes per second by the size, and by what each rank must send. */
  readonly algorithm: number;
  readonly bus: number;
}

const kinds = ["heddle", "gloo", "mpi"];

/** The `bench` command: each thing that is timed is a command of its own. */
export function benchCommand(context: CommandContext): Command {
  return new Command("bench")
    .summary("time collectives, compare policies")
    .description("Times collectives beside Gloo and MPI, or compares policies of consistency.")
    .addCommand(benchCollectivesCommand(context))
    .addCommand(benchPoliciesCommand(context));
}

function benchCollectivesCommand({ finish }: CommandContext): Command {
  const list = (what: string, allowed: readonly string[]) => (text: string) => {
    const names = text.split(",");
    const unknown = names.find((name) => !allowed.includes(name));
    if (unknown === undefined) return names;
    const suggestion = nearest(unknown, allowed);
    const hint = suggestion === undefined ? `there are ${allowed.join(", ")}` : `did you mean '${suggestion}'?`;
    throw new HeddleError("option", `bench: there is no ${what} '${unknown}'`, { hint });
  };
  return new Command("collectives")
    .summary("time collectives beside Gloo and MPI")
    .description(
      "Times collectives between processes of this machine, in turns with Gloo (PyTorch) and MPI where they are.",
    )
    .option("-n, --workers <number>", "processes", wholeNumber(2, 64), 2)
    .option("--collectives <names>", `of ${Object.keys(shares).join(", ")}`, list("collective", Object.keys(shares)), [
      "allReduce",
    ])
    .option("--sizes <bytes>", "bytes of each, such as 4,1024,1048576", sizesOf, defaultSizes)
    .option("--rounds <number>", "how often each peer runs, in turns", wholeNumber(1, 100), 3)
    .option("--milliseconds <number>", "time of a measurement", wholeNumber(1, 60_000), 50)
    .option("--python <path>", "a Python with PyTorch", "python3")
    .option("--peers <names>", `of ${kinds.join(", ")}`, list("peer", kinds), kinds)
    .option("--json", "machine-readable")
    .addHelpText("after", notes)
    .action(async (flags: Flags) => {
      const { measured, missing } = await measure(flags);
      if (flags.json === true) console.log(JSON.stringify({ workers: flags.workers, measured, missing }, null, 2));
      else console.log(formatMeasured(measured, missing, flags.workers));
      finish(measured.length > 0 ? exitStatus.ok : exitStatus.failure);
    });
}

function sizesOf(text: string): number[] {
  const sizes = text.split(",").map(Number);
  if (sizes.every((size) => Number.isInteger(size) && size >= 4)) return sizes;
  throw new HeddleError("option", `bench: --sizes takes whole numbers of bytes from 4 on, got ${text}`);
}

async function measure(flags: Flags): Promise<{ measured: Measured[]; missing: Missing[] }> {
  const { workers, collectives, sizes, rounds, milliseconds, python, peers: wanted } = flags;
  const seconds = milliseconds / 1e3;
  const { folder, remove } = peerFolder();
  try {
    const candidates: readonly (Peer | Missing)[] = [
      ...(wanted.includes("heddle") ? heddlePeers(seconds) : []),
      ...(wanted.includes("gloo") ? [glooPeer(folder, python, seconds)] : []),
      ...(wanted.includes("mpi") ? mpiPeers(folder, seconds) : []),
    ];
    const missing = candidates.filter((one): one is Missing => "missing" in one);
    const best = new Map<string, Measured>();
    for (let round = 0; round < rounds; round++) {
      for (const peer of candidates) {
        if ("missing" in peer || missing.some(({ name }) => name === peer.name)) continue;
        const measurements = collectives.flatMap((name) => sizes.map((size) => `${name}:${size}`));
        const text = await peer.run(workers, measurements).catch((error: Error) => error);
        if (text instanceof Error) missing.push({ name: peer.name, missing: text.message });
        else for (const one of parse(peer.name, text, workers)) keep(best, one);
      }
    }
    return { measured: [...best.values()], missing };
  } finally {
    remove();
  }
}

function keep(best: Map<string, Measured>, one: Measured): void {
  const key = `${one.collective} ${one.bytes} ${one.name}`;
  const known = best.get(key);
  if (known === undefined || one.seconds < known.seconds) best.set(key, one);
}

/** Reads `call allReduce 1024 0.000012`. */
function parse(peer: string, text: string, workers: number): Measured[] {
  return [...text.matchAll(/^(program|call) (\w+) (\d+) (\S+)$/gm)].map(([, kind, collective = "", size, time]) => {
    const [bytes, seconds] = [Number(size), Number(time)];
    const share = (shares[collective] as (typeof shares)[string])(workers);
    const name = kind === "call" && peer.startsWith("heddle") ? peer.replace("heddle", "heddle call") : peer;
    return { collective, bytes, name, seconds, algorithm: bytes / seconds, bus: (bytes * share) / seconds };
  });
}

/** Heddle over each transport, each as a run of its own. */
function heddlePeers(seconds: number): Peer[] {
  const file = fileURLToPath(new URL(`./bench-steps${extname(import.meta.url)}`, import.meta.url));
  return ["shared", "tcp"].map((transport) => ({
    name: `heddle ${transport}`,
    run: (workers, measurements) => {
      const command = [
        process.argv[1] as string,
        "run",
        file,
        "--workers",
        String(workers),
        "--threads",
        "1",
        "--quiet",
      ];
      const args = [...process.execArgv, ...command, "--", String(seconds), ...measurements];
      const env = { ...ownVariables(), HEDDLE_TRANSPORT: transport };
      return outputOf("heddle run", spawn(process.execPath, args, { env, stdio: ["ignore", "pipe", "pipe"] }));
    },
  }));
}

const gigabytes = (rate: number): string => (rate / 1e9).toFixed(rate < 1e8 ? 4 : 2);

/** A table for each collective. */
export function formatMeasured(measured: readonly Measured[], missing: readonly Missing[], workers: number): string {
  const blocks = [...new Set(measured.map(({ collective }) => collective))].map((collective) => {
    const own = measured.filter((one) => one.collective === collective);
    const sizes = [...new Set(own.map(({ bytes }) => bytes))].sort((left, right) => left - right);
    const rows = sizes.flatMap((size) =>
      own
        .filter(({ bytes }) => bytes === size)
        .map(({ name, seconds, algorithm, bus }, index) => [
          index === 0 ? formatBytes(size) : "",
          name,
          formatTime(seconds),
          gigabytes(algorithm),
          gigabytes(bus),
        ]),
    );
    return `${collective}, ${workers} workers\n${aligned([["size", "", "time", "alg GB/s", "bus GB/s"], ...rows], [1])}`;
  });
  const told = missing.map((one) => `${one.name} was not measured: ${one.missing}`);
  return [...blocks, ...(told.length === 0 ? [] : [told.join("\n")])].join("\n\n");
}
