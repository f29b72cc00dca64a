/** @module Starts the workers of a run on this machine and waits until they have ended. */

import { randomBytes } from "node:crypto";
import { existsSync, statSync } from "node:fs";
import { constants } from "node:os";
import { extname, join, resolve } from "node:path";
import type { ProfileRequest } from "../executors/index.ts";
import { HeddleError } from "../util/errors.ts";
import { refuseOtherLaunchers } from "../util/launchers.ts";
import { type PlanForm, readEnvironment, unknownVariables } from "../util/settings.ts";
import { listed } from "../util/text.ts";
import { threadsPerWorker, usableCores } from "./cores.ts";
import { type RunEnvironment, workerEnvironment } from "./environment.ts";
import { readPosition } from "./flight.ts";
import { keepRunDirectory, makeRunDirectory, removeRunDirectory } from "./folder.ts";
import { nodeArguments } from "./loader.ts";
import { orderFailures, type WorkerFailure } from "./report.ts";
import { type StartStore, type Store, startNativeStore } from "./store.ts";
import { defaultGrace, listenForStop, type StopSignal, supervise } from "./supervise.ts";
import { startWorker, type WorkerProcess } from "./worker-process.ts";

/** Options of {@link launchLocal}. */
export interface LaunchOptions {
  /** The user's file, TypeScript or JavaScript. */
  readonly file: string;
  /** Arguments for the file. */
  readonly args?: readonly string[];
  /** Number of worker processes; 1 by default. */
  readonly workers?: number;
  /** Threads of each worker; by default the cores of this process are divided among the workers. */
  readonly threads?: number;
  readonly executor?: string;
  /** Continue from the last checkpoint. */
  readonly resume?: boolean;
  /** Show only errors and the file's own output: no training reports, no warnings. */
  readonly quiet?: boolean;
  /** Port of the rendezvous store; a free one by default. */
  readonly port?: number;
  /** Seconds that a worker waits for another before it gives up. */
  readonly timeout?: number;
  /** Seconds that workers get to end after they were asked to, before they are killed; default 5. */
  readonly grace?: number;
  /** The mesh, if the file names none, such as `data=2,model=2`. */
  readonly mesh?: string;
  /** The machine description for plans, as JSON: devices and links. */
  readonly machine?: string;
  /** Addresses of waiting workers that the file's process drives, such as `127.0.0.1:4101,127.0.0.1:4102`. */
  readonly on?: string;
  /** A file with the plan that a training uses. */
  readonly planFile?: string;
  /** Print the plan on this mesh (`data=2,model=1`) instead of running; several with `;` between them. */
  readonly plan?: string;
  /** Profile into a folder instead of running to the end. */
  readonly profile?: ProfileRequest;
  /** Print the workers' output to the error stream. */
  readonly outputToErrors?: boolean;
  /** The printed form of the plan; default `"summary"`. */
  readonly planAs?: PlanForm;
  /** Which ranks' lines get their rank as prefix: all but rank 0 (which may draw a progress bar), or all. */
  readonly prefix?: "others" | "all";
  /** Stops the run. */
  readonly signal?: AbortSignal;
  /** Replaces the native store, in tests. */
  readonly startStore?: StartStore;
}

/** How a run ended. */
export interface LaunchResult {
  /** Exit status: 0, the status of the worker whose failure is the root cause, or 128 + the signal's number. */
  readonly status: number;
  /** The root cause first; empty when nothing failed. */
  readonly failures: readonly WorkerFailure[];
  /** The signal that stopped the run, if one did. */
  readonly stoppedBy?: StopSignal;
  /** The folder with the workers' flight records, kept when a run failed. */
  readonly records?: string;
  /** The text of the plan; undefined without the option `plan`, or if the file ended without calling `train`. */
  readonly plan?: string;
  /** Whether several workers succeeded without joining each other: each has run the whole file by itself. */
  readonly apart?: boolean;
  /** The given mesh, if the run succeeded and nothing ran on the mesh. */
  readonly unusedMesh?: string | undefined;
  /** The file of the given plan, if the run succeeded and no worker used the plan. */
  readonly unusedPlan?: string | undefined;
}

/**
 * Runs a file in worker processes on this machine.
 *
 * When it resolves, no process, port or temporary file of the run is left, except the records of a failed run.
 */
export async function launchLocal(options: LaunchOptions): Promise<LaunchResult> {
  const workers = options.workers ?? 1;
  checkOptions(options, workers);
  readEnvironment();
  if (options.quiet !== true) for (const text of unknownVariables()) console.error(`heddle: ${text}`);
  if (options.plan === undefined) refuseOtherLaunchers();
  const stop = listenForStop(options.signal);
  const runDirectory = makeRunDirectory();
  let keep = false;
  try {
    const result = await launchIn(runDirectory, options, workers, stop);
    keep = result.failures.some(({ rank }) => existsSync(join(runDirectory, `rank-${rank}.flight`)));
    return keep ? { ...result, records: keepRunDirectory(runDirectory) } : result;
  } finally {
    stop.dispose();
    if (!keep) removeRunDirectory(runDirectory);
  }
}

async function launchIn(
  runDirectory: string,
  options: LaunchOptions,
  workers: number,
  stop: ReturnType<typeof listenForStop>,
): Promise<LaunchResult> {
  const runId = randomBytes(8).toString("hex");
  const secret = randomBytes(32).toString("hex");
  const started = performance.now();
  const store = await openStore(options, workers, secret, runId);
  const processes: WorkerProcess[] = [];
  // When the launcher ends, for any reason, the workers end, too.
  const killAll = () => {
    for (const worker of processes) if (!worker.gone) worker.kill("SIGKILL");
  };
  process.once("exit", killAll);
  try {
    const run: RunEnvironment = {
      ...options,
      workers,
      threads: options.threads ?? threadsPerWorker(usableCores().usable, workers),
      masterPort: store?.port ?? options.port ?? 0,
      runId,
      secret,
      runDirectory,
    };
    const failures: WorkerFailure[] = [];
    for (let rank = 0; rank < workers; rank++) {
      processes.push(startRank(rank, run, options, (failure) => failures.push(failure), started));
    }
    for (const worker of processes)
      void worker.ended.then(({ code }) => {
        if (code !== 0 || worker.stopping) return;
        for (const other of processes) if (!other.gone) other.peerEnded(worker.rank);
      });
    const stoppedBy = await supervise(processes, stop, 1000 * (options.grace ?? defaultGrace));
    if (stoppedBy !== undefined) return { status: statusOf(stoppedBy), failures: [], stoppedBy };
    failures.push(...deserters(failures, processes, started));
    const plan = processes[0]?.plan;
    const ended = summarise(failures);
    const alone = ended.status === 0 && plan === undefined && !processes.some(({ joined }) => joined);
    const apart = workers > 1 && alone;
    const unusedMesh = workers === 1 && alone && options.on === undefined ? options.mesh : undefined;
    const unusedPlan = ended.status === 0 && !processes.some(({ byPlan }) => byPlan) ? options.planFile : undefined;
    return {
      ...ended,
      ...(plan === undefined ? {} : { plan }),
      ...(apart ? { apart } : {}),
      ...(unusedMesh === undefined ? {} : { unusedMesh }),
      ...(unusedPlan === undefined ? {} : { unusedPlan }),
    };
  } finally {
    killAll();
    process.off("exit", killAll);
    for (const worker of processes) worker.removeTemporaries();
    await store?.close();
  }
}

function startRank(
  rank: number,
  run: RunEnvironment,
  options: LaunchOptions,
  onFailure: (failure: WorkerFailure) => void,
  started: number,
): WorkerProcess {
  const worker = startWorker({
    rank,
    arguments: nodeArguments(resolve(options.file), options.args ?? []),
    environment: workerEnvironment(run, rank, process.env),
    inheritOutput: rank === 0 && options.prefix !== "all",
    inheritInput: run.workers === 1,
    outputToErrors: options.plan !== undefined || options.outputToErrors === true,
  });
  void worker.ended.then(({ code, signal, at, startError }) => {
    worker.removeTemporaries();
    if (code === 0 || worker.stopping) return;
    const record = readPosition(run.runDirectory, rank);
    onFailure({
      rank,
      exitCode: code,
      signal,
      at: at - started,
      step: record.step ?? worker.step,
      during: record.during,
      error: worker.error,
      startError,
    });
  });
  return worker;
}

/** Workers that ended with status 0 while other workers still needed them. */
function deserters(
  failures: readonly WorkerFailure[],
  processes: readonly WorkerProcess[],
  started: number,
): WorkerFailure[] {
  const missed = new Map(
    failures.flatMap(({ error }) => (error?.code === "peerClosed" ? [[error.peer, error.during] as const] : [])),
  );
  return processes.flatMap(({ rank, exit, step, stopping }) =>
    exit?.code === 0 && !stopping && missed.has(rank)
      ? [{ rank, exitCode: 0, signal: null, at: exit.at - started, step, during: missed.get(rank) }]
      : [],
  );
}

function summarise(failures: readonly WorkerFailure[]): LaunchResult {
  const ordered = orderFailures(failures);
  const [first] = ordered;
  // Nobody reads the output any more: the worker ended as it should, and ended the run.
  if (failures.some(({ exitCode, error }) => exitCode === brokenPipe && error === undefined)) {
    return { status: brokenPipe, failures: [] };
  }
  if (first === undefined) return { status: 0, failures: [] };
  // A worker that left the others with status 0 counts as failed.
  const status = first.signal === null ? (first.exitCode ?? 1) : statusOf(first.signal);
  return { status: status === 0 ? 1 : status, failures: ordered };
}

/** Status of a worker whose output nobody reads: 128 + SIGPIPE. */
const brokenPipe = statusOf("SIGPIPE");

/** The status that shells give for a process that a signal ended. */
function statusOf(signal: string): number {
  return 128 + constants.signals[signal as NodeJS.Signals];
}

async function openStore(
  options: LaunchOptions,
  workers: number,
  secret: string,
  runId: string,
): Promise<Store | undefined> {
  // A single worker needs no store.
  if (workers === 1) return undefined;
  const start = options.startStore ?? startNativeStore;
  return start({ host: "127.0.0.1", port: options.port ?? 0, secret, runId });
}

/** The file name extensions of programs. */
const scripts = [".ts", ".mts", ".cts", ".tsx", ".js", ".mjs", ".cjs", ".jsx"];

function checkOptions({ file, threads, port, timeout, grace }: LaunchOptions, workers: number): void {
  if (!existsSync(file)) {
    const similarFile = scripts.map((extension) => file + extension).find(existsSync);
    const hint = similarFile === undefined ? {} : { hint: `did you mean ${similarFile}?` };
    throw new HeddleError("file", `there is no file ${file}`, hint);
  }
  if (statSync(file).isDirectory()) throw new HeddleError("file", `${file} is a folder, not a file`);
  const kind = extname(file);
  if (kind !== "" && !scripts.includes(kind))
    throw new HeddleError("file", `${file} is not a program: files end in ${listed(scripts, scripts.length)}`);
  const check = (name: string, value: number | undefined, lowest: number, highest: number) => {
    if (value === undefined || (Number.isInteger(value) && value >= lowest && value <= highest)) return;
    throw new HeddleError("option", `${name} must be a whole number from ${lowest} to ${highest}, not ${value}`);
  };
  check("workers", workers, 1, 1024);
  check("threads", threads, 1, 1024);
  check("port", port, 0, 65_535);
  check("timeout", timeout, 1, 86_400);
  check("grace", grace, 0, 86_400);
}
