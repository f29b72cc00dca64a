/** @module `heddle run`: a user's file in worker processes. */

import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { Command, Option } from "commander";
import { engines } from "../launch/engines/table.ts";
import type { LaunchOptions, LaunchResult } from "../launch/launch-options.ts";
import { launchLocal } from "../launch/local.ts";
import { noticeSources } from "../launch/notices.ts";
import { describeFailures } from "../launch/report.ts";
import { stragglerText } from "../launch/stalls.ts";
import { submitRun, submitter } from "../launch/submit.ts";
import { HeddleError } from "../util/errors.ts";
import { asVariable, compressionFlag, meshText, type WorkerRange, wholeNumber, workerRange } from "./arguments.ts";
import { useCertificates } from "./certificates.ts";
import type { CommandContext } from "./context.ts";
import { machineFlag, machineOption } from "./machine-file.ts";

const notes = `
A TypeScript file runs as it is, with no build step. Every worker runs the whole file; RANK, WORLD_SIZE, LOCAL_RANK,
MASTER_ADDR and MASTER_PORT are set as torchrun sets them. Arguments for the file come after --.

Workers exchange data through shared memory where they can, else by TCP. HEDDLE_TRANSPORT=tcp|shared|mpi|checked|auto chooses.

With --hosts, the file, Node and Heddle have the same paths on every host. Workers get the variables HEDDLE_… of this
process; HEDDLE_INTERFACE and HEDDLE_PORTS say where they listen. Under torchrun, srun, mpirun and the like, each process
runs heddle run <file> and is one worker (docs/hosts.md).

With --with, an engine starts the workers, on as many hosts as it has (docs/engines.md):
${engines.map(({ name, summary }) => `  ${name.padEnd(7)}${summary}`).join("\n")}
Each worker reaches this process by a link that both sides authenticate: output, signals and exit status are the same.

SIGUSR2 announces an end, as before a pre-emption: trainings save a checkpoint at the next step, and the status is 140.
With --grace, so does SIGTERM, if the checkpoint is written in that time (else 143); with --notice, so does a notice of the cloud.

Exit status: 0, that of the worker that failed first, 128 + the number of the signal that ended it; 2 for a wrong
command line or environment; 130 after Ctrl-C; 141 when nobody reads the output any more.
`;

/** Flags of `heddle run`, as commander hands them over. */
type RunFlags = Omit<
  LaunchOptions,
  "workers" | "minWorkers" | "file" | "args" | "plan" | "planAs" | "planFile" | "signal" | "startStore" | "onRestart"
> & {
  readonly plan?: string;
  readonly tls?: string;
  readonly workers?: WorkerRange;
};

/** What commander knows of the whole command line, beside its declared types. */
interface GivenCommand {
  readonly parent: { readonly rawArgs?: readonly string[] } | null;
}

/** The `run` command. */
export function runCommand({ finish, signal }: CommandContext): Command {
  return new Command("run")
    .summary("run a file in one or more worker processes")
    .description("Runs a TypeScript or JavaScript file in worker processes, on this machine or on several hosts.")
    .argument("<file>", "the file to run")
    .argument("[args...]", "arguments for the file, after --")
    .option(
      "-n, --workers <number>",
      "worker processes (default: 1); 2:8 starts 8 and goes on without lost ones while 2 are left",
      workerRange,
    )
    .option(
      "--hosts <hosts>",
      "the hosts of the workers, with their numbers of workers, such as a,b:4 (default: this machine)",
    )
    .option("--shell <command>", "how to reach a host, such as 'ssh -p 2222 {host} {command}' (default: ssh)")
    .addOption(
      new Option("--with <engine>", "who starts the workers (default: this command itself)").choices(
        engines.map(({ name }) => name),
      ),
    )
    .option("--engine-args <words>", "arguments for the engine, such as '--partition long --mem 8G'")
    .option(
      "--restarts <number>",
      "how often to start again after a failure, from the last checkpoint; with --workers 2:8 how many lost workers to replace (default: 0)",
      wholeNumber(0, 1_000_000),
    )
    .option(
      "--membership <address>",
      "where an elastic run's epochs are kept, so that a launcher that stands by can take over, such as etcd://a:2379,b:2379/name (default: this process alone)",
    )
    .option("-t, --threads <number>", "threads of each worker (default: the cores, shared out)", wholeNumber(1, 1024))
    .option(
      "--executor <name>",
      "what computes: native (default), reference, or one that the file registers",
      asVariable("HEDDLE_EXECUTOR"),
    )
    .option("-m, --mesh <axes>", "the mesh, where the file names none (default: data over all workers)", meshText)
    .option(
      "--plan <file>",
      "train by this plan, as heddle plan --layouts or --graph printed it, edited or not (docs/plans.md)",
    )
    .addOption(compressionFlag())
    .option(
      "--servers <number>",
      "parameter servers, to which workers push gradients; 0: on the workers (docs/parameter-server.md)",
      wholeNumber(0, 64),
    )
    .option(
      "--policy <spec>",
      "who waits for whom on servers, where the file does not say it: bsp, ssp:3, async, downpour:2:2, elastic-averaging:4 or another of docs/parameter-server.md",
    )
    .addOption(machineFlag())
    .option(
      "--on <addresses>",
      "drive these waiting workers (host:port,…; see heddle worker) from one process",
      asVariable("HEDDLE_WORKERS"),
    )
    .option(
      "--tls <folder>",
      "certificates for mutual TLS with waiting workers, servers and agents, as heddle keys makes them (default: HEDDLE_TLS)",
    )
    .option("--resume", "go on from the last checkpoint")
    .option("-q, --quiet", "print nothing but errors and what the file itself prints")
    .option("--port <number>", "rendezvous port (default: a free one)", wholeNumber(1, 65_535))
    .option("--timeout <seconds>", "how long a worker waits for another", wholeNumber(1, 86_400))
    .option(
      "--grace <seconds>",
      "how long workers may take to end after Ctrl-C, SIGTERM, or the failure of another (default: 5); if given, SIGTERM lets trainings save a checkpoint in that time",
      wholeNumber(0, 86_400),
    )
    .option("--notice <source>", `what announces the end of this machine: ${noticeSources}`)
    .addOption(
      new Option("--prefix <ranks>", "whose lines carry their rank (default: others)").choices(["others", "all"]),
    )
    .addHelpText("after", notes)
    .action(
      async (
        file: string,
        args: string[],
        { plan, tls, workers: range, ...given }: RunFlags,
        command: GivenCommand,
      ) => {
        useCertificates(tls);
        const flags = { ...given, ...(range === undefined ? {} : { workers: range.most }) };
        if (flags.engineArgs !== undefined && flags.with === undefined)
          throw new HeddleError("option", "--engine-args are for the engine of --with, which is missing");
        if (flags.shell !== undefined && flags.with !== undefined)
          throw new HeddleError("option", "--shell and --with are two ways to start workers: give one of them");
        if (flags.shell !== undefined && flags.hosts === undefined)
          throw new HeddleError("option", "--shell says how to reach the hosts of --hosts, which is missing");
        if (flags.on !== undefined && flags.with !== undefined)
          throw new HeddleError(
            "option",
            "--on names workers that wait already; --with starts others: give one of them",
          );
        if (flags.on !== undefined && ((flags.workers ?? 1) !== 1 || flags.hosts !== undefined)) {
          throw new HeddleError("option", "--on names the workers; --workers starts others: give one of them");
        }
        if (plan !== undefined && flags.mesh !== undefined)
          throw new HeddleError("option", "the plan of --plan has a mesh: leave --mesh out, or plan for that mesh");
        if (plan !== undefined && !existsSync(plan)) throw new HeddleError("file", `there is no file ${plan}`);
        const planned = plan === undefined ? {} : { planFile: resolve(plan) };
        const onRestart = (failed: LaunchResult, restart: number): void => {
          report(failed, failed.size, signal);
          console.error(
            `heddle: starting again from the last checkpoint, ${restart} of at most ${flags.restarts} times`,
          );
        };
        const elastic = range?.least === undefined ? {} : { minWorkers: range.least };
        const options = { ...flags, ...elastic, ...machineOption(flags), ...planned, file, args, signal, onRestart };
        const engine = submitter(flags.with);
        const result = await (engine === undefined
          ? launchLocal(options)
          : submitRun(engine, options, command.parent?.rawArgs ?? []));
        report(
          flags.quiet === true ? { ...result, apart: false, unusedPlan: undefined, unusedMesh: undefined } : result,
          result.size,
          signal,
        );
        finish(result.status);
      },
    );
}

/** The message about workers that did not communicate. */
const apartText = (workers: number): string =>
  `the ${workers} workers never met: each ran the whole file for itself. train() and distributedStep() share the work\n` +
  "  (docs/loops.md), as do values that await connect() and distribute() put on all of them (docs/distributed.md),\n" +
  "  and matrices after connect() of heddle/matrix (docs/matrix.md)";

const unusedText = (plan: string): string =>
  `the plan ${plan} was not used: only train() goes by it, and nothing was trained. compilePlan() runs a plan of\n` +
  "  another function (docs/plans.md)";

const unusedMeshText = (mesh: string): string =>
  `the mesh ${mesh} was not used: train(), distributedStep() and connect() run on it, and the file called none of them\n` +
  "  (docs/distributed.md)";

/** Prints to the error stream how a run ended, when it failed or did its work more than once. */
export function report(result: LaunchResult, workers: number, unread?: AbortSignal): void {
  const { failures, stoppedBy, records, straggler, apart = false, unusedMesh, unusedPlan } = result;
  // The end of the output's reader ended the run, so there is nobody to report to.
  if (unread?.aborted) return;
  if (stoppedBy !== undefined) console.error(`heddle: stopped by ${stoppedBy}`);
  if (failures.length > 0) console.error(`heddle: ${describeFailures(failures, workers)}`);
  if (apart) console.error(`heddle: ${apartText(workers)}`);
  if (unusedMesh !== undefined) console.error(`heddle: ${unusedMeshText(unusedMesh)}`);
  if (unusedPlan !== undefined) console.error(`heddle: ${unusedText(unusedPlan)}`);
  if (straggler !== undefined) console.error(`heddle: ${stragglerText(straggler)}`);
  if (records !== undefined)
    console.error(
      `heddle: the workers' last collectives are recorded in ${records} (heddle doctor says what happened there)`,
    );
}
