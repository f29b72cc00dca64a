/** @module `heddle profile`: where the time of a file's training steps goes. */

import { Command } from "commander";
import { writeBytes } from "../io/write.ts";
import { wholeNumber } from "./arguments.ts";
import type { CommandContext } from "./context.ts";
import { machineFlag, machineOption } from "./machine-file.ts";
import { formatReport, reportOf } from "./profile-report.ts";
import { traceOf } from "./profile-trace.ts";
import { profiled } from "./profiled.ts";
import { report } from "./run.ts";
import { exitStatus } from "./status.ts";

const notes = `
Every kernel call of the native executor is timed, on the thread that goes through the steps. A file that calls train()
ends after the steps; no checkpoint is read or written. Any other file (compiled functions, single operations) runs to
its end, and the first runs of each program count. What the file itself prints goes to the error stream.

Columns: milliseconds per step, what the cost model predicts for them, the share of the step, how often it ran;
arithmetic and bytes over time; and "of limit", what the work would take at the machine's measured limits over what it
took. Data in the caches can be faster than the memory's limit. Communication includes waiting for the other ranks.
Predictions are of the machine that plans assume; --machine measured predicts for this one (see heddle machine).

A trace opens in chrome://tracing or https://ui.perfetto.dev.
`;

interface ProfileFlags {
  readonly steps: number;
  readonly workers: number;
  readonly threads?: number;
  readonly machine?: string;
  readonly trace?: string;
  readonly json?: boolean;
}

/** The `profile` command. */
export function profileCommand({ finish, signal }: CommandContext): Command {
  return new Command("profile")
    .summary("show where the time of a file's training steps goes")
    .description("Runs a file for some steps and shows the time of each kernel, compared with the machine's limits.")
    .argument("<file>", "the file that trains, or runs compiled functions")
    .argument("[args...]", "arguments for the file, after --")
    .option("-s, --steps <number>", "steps that count", wholeNumber(1, 10_000), 20)
    .option("-n, --workers <number>", "worker processes", wholeNumber(1, 1024), 1)
    .option("-t, --threads <number>", "threads of each worker (default: the cores, shared out)", wholeNumber(1, 1024))
    .addOption(machineFlag())
    .option("--trace <file>", "also write a trace of all ranks, as Chrome reads it")
    .option("--json", "machine-readable")
    .addHelpText("after", notes)
    .action(async (file: string, args: string[], flags: ProfileFlags) =>
      finish(await profile(file, args, flags, signal)),
    );
}

async function profile(
  file: string,
  args: readonly string[],
  flags: ProfileFlags,
  signal: AbortSignal,
): Promise<number> {
  const { steps, workers, trace, json, threads } = flags;
  const options = {
    file,
    args,
    workers,
    signal,
    ...machineOption(flags),
    ...(threads === undefined ? {} : { threads }),
  };
  const { result, ranks } = await profiled(options, steps);
  report(result, workers, signal);
  if (result.status !== exitStatus.ok) return result.status;
  if (trace !== undefined)
    await writeBytes("profile: the trace", trace, Buffer.from(`${JSON.stringify(traceOf(ranks))}\n`));
  const summary = reportOf(ranks);
  process.stdout.write(`${json === true ? JSON.stringify(summary, null, 2) : formatReport(summary)}\n`);
  if (trace !== undefined) console.error(`heddle: the trace is in ${trace}`);
  return exitStatus.ok;
}
