/** @module `heddle machine`: measures what the devices of this machine and the links between them can do. */
import { existsSync, writeFileSync } from "node:fs";
import { cpus } from "node:os";
import { basename, dirname, extname } from "node:path";
import { fileURLToPath } from "node:url";
import { Command } from "commander";
import { type Machine, machineFor } from "../cost/index.ts";
import type { ThreadRates } from "../cost/machine.ts";
import type { ProgramProfile, RankProfile } from "../executors/index.ts";
import { makeFolder } from "../io/make-folder.ts";
import { HeddleError } from "../util/errors.ts";
import { wholeNumber } from "./arguments.ts";
import type { CommandContext } from "./context.ts";
import { allThreads, measuredFile } from "./machine-file.ts";
import { callTime } from "./profile-report.ts";
import { profiled } from "./profiled.ts";
import { report } from "./run.ts";
import { exitStatus } from "./status.ts";

const notes = `
Times a large product (arithmetic), middling products (all threads beside one), a = b + c / 2 of large arrays (memory), small
calls, and sums over two workers (the link). The best of several runs counts; other work on the machine makes it look slower.
The figures are kept for this hardware and number of threads: heddle run, plan and profile use them with --machine measured.
Without that option plans assume the same figures everywhere, so that a plan does not depend on where it is made.

The JSON can describe other machines, too: flops (operations per second of a device), memory and bandwidth (bytes per second of
its memory and of a link), latency, call and handover (seconds for a message, for a kernel call, and for handing work to a
thread), thread (count; flops and memory of one thread alone; share, the seconds that sharing a kernel among the threads takes),
devices (how many have these rates before a larger mesh shares them), links (latency and bandwidth of mesh axes by name), name.
`;

/** Work of the timed programs. */
export const rates = { side: 768, elements: 8e6, calls: 200, middling: { side: 160, products: 40 } } as const;
/** Sums one after another, and of how many elements. */
export const links = { rounds: 8, elements: { small: 1, large: 1e6 } } as const;
/** Runs of each program. */
export const steps = 23;

/** The `machine` command. */
export function machineCommand({ finish, signal }: CommandContext): Command {
  return new Command("machine")
    .summary("measure this machine for plans")
    .description("Measures what the devices of this machine and the links between them can do, for --machine measured.")
    .option("-t, --threads <number>", "threads of a device (default: all cores)", wholeNumber(1, 1024))
    .option("-o, --out <file>", "write the figures there instead of keeping them in ~/.cache/heddle")
    .addHelpText("after", notes)
    .action(async ({ threads = allThreads(), out }: { readonly threads?: number; readonly out?: string }) => {
      const file = out ?? measuredFile(threads);
      if (out === undefined) await makeCache(dirname(file));
      else if (!existsSync(dirname(file)))
        throw new HeddleError(
          "file",
          `heddle machine: there is no folder ${dirname(file)} to write ${basename(file)} in`,
        );
      const machine = `${JSON.stringify(await measure(threads, signal), null, 2)}\n`;
      writeFileSync(file, machine);
      process.stdout.write(machine);
      console.error(`heddle: the figures are in ${file}`);
      finish(exitStatus.ok);
    });
}

/** @throws HeddleError `file` when the folder of the figures cannot be made. */
async function makeCache(folder: string): Promise<void> {
  try {
    await makeFolder(folder);
  } catch (cause) {
    throw new HeddleError("file", `heddle machine: the folder ${folder} cannot be made: ${(cause as Error).message}`, {
      hint: "XDG_CACHE_HOME names another folder for the figures, --out a file",
      cause,
    });
  }
}

/** The best run of a program. */
interface Best {
  readonly seconds: number;
  readonly calls: number;
  readonly flops: number;
  readonly bytes: number;
  /** Mean time of its collectives. */
  readonly collective: number;
}

async function measure(threads: number, signal: AbortSignal): Promise<Machine> {
  const file = fileURLToPath(new URL(`./machine-steps${extname(import.meta.url)}`, import.meta.url));
  const bestOf = async (workers: number, most = threads): Promise<(name: string) => Best> => {
    const perWorker = Math.max(1, Math.min(most, Math.floor(allThreads() / workers)));
    const { result, ranks } = await profiled({ file, workers, threads: perWorker, signal }, steps);
    report(result, workers, signal);
    if (ranks[0] === undefined) throw new HeddleError("profile", "the machine could not be measured");
    return (name) =>
      best((ranks[0] as RankProfile).programs.find((program) => program.name === name) as ProgramProfile);
  };
  const device = await bestOf(1);
  const [product, stream, calls] = [device("product"), device("stream"), device("calls")];
  const thread = threads === 1 ? undefined : threadRates(threads, device, await bestOf(1, 1));
  const pair = await bestOf(2);
  const [small, large] = [pair("small").collective, pair("large").collective];
  const { handover } = machineFor(1);
  // Two workers sum by two messages that wait for one another, and send as much as they hold.
  return {
    name: `${cpus()[0]?.model.trim() ?? "unknown"}, ${threads} of ${allThreads()} cores a device`,
    flops: Math.round(product.flops / product.seconds),
    memory: Math.round(stream.bytes / stream.seconds),
    latency: small / 2,
    bandwidth: Math.round((4 * links.elements.large) / Math.max(large - small, 1e-9)),
    call: calls.seconds / calls.calls,
    handover,
    ...(thread === undefined ? {} : { thread }),
    devices: Math.max(1, Math.floor(allThreads() / threads)),
  };
}

/** The rates of one thread alone, and how much longer than its share of a middling product all threads take. */
function threadRates(count: number, device: (name: string) => Best, alone: (name: string) => Best): ThreadRates {
  const rate = (best: Best): number => best.flops / best.seconds;
  const [single, all] = [alone("product"), device("product")];
  const [small, shared] = [alone("middling"), device("middling")];
  const stream = alone("stream");
  const gain = Math.max(1, rate(all) / rate(single));
  return {
    count,
    flops: Math.round(rate(single)),
    memory: Math.round(stream.bytes / stream.seconds),
    share: Math.max(0, shared.seconds - small.seconds / gain) / shared.calls,
  };
}

function best({ runs, calls }: ProgramProfile): Best {
  const sum = (numbers: readonly number[]): number => numbers.reduce((total, value) => total + value, 0);
  const collectives = calls.flatMap(({ kernel }, index) => (kernel.startsWith("collective") ? [index] : []));
  const times = runs.map((run) => sum(collectives.map((index) => callTime(run, index))) / collectives.length);
  return {
    seconds: Math.min(...runs.map(([, length]) => length as number)) / 1e9,
    calls: calls.length,
    flops: sum(calls.map(({ flops }) => flops)),
    bytes: sum(calls.map(({ bytes }) => bytes)),
    collective: Math.min(...times) / 1e9,
  };
}
