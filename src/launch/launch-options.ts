/** @module The options of a run, checked, and its result. */
import { existsSync, statSync } from "node:fs";
import { extname } from "node:path";
import { policyNamed } from "../consistency/index.ts";
import { checkServerPolicy } from "../consistency/server-policy.ts";
import type { ProfileRequest } from "../executors/index.ts";
import { HeddleError } from "../util/errors.ts";
import type { PlanForm } from "../util/settings.ts";
import { listed } from "../util/text.ts";
import type { WorkerFailure } from "./report.ts";
import type { Straggler } from "./stalls.ts";
import type { StartStore } from "./store.ts";
import type { StopSignal } from "./supervise.ts";

/** Options of `launchLocal`. */
export interface LaunchOptions {
  /** The user's file, TypeScript or JavaScript; on other hosts it has the same path. */
  readonly file: string;
  /** Arguments for the file. */
  readonly args?: readonly string[];
  /** Number of worker processes; 1 by default, with `hosts` one for each host without a number. */
  readonly workers?: number;
  /** The run goes on without lost workers, as long as there are so many; `restarts` says how many are started in their place. */
  readonly minWorkers?: number;
  /** Where the log of an elastic run's membership is, such as `etcd://a:2379,b:2379/name`; default this process alone. */
  readonly membership?: string;
  /** Hosts of the workers, with their numbers of workers, such as `a,b:4`; default this machine. */
  readonly hosts?: string;
  /** The command that reaches a host, such as `ssh -p 2222 {host} {command}`; default by ssh. */
  readonly shell?: string;
  /** The engine that starts the workers, such as `mpi`; default this launcher itself. */
  readonly with?: string;
  /** Arguments for the engine, separated by spaces. */
  readonly engineArgs?: string;
  /** How often the run is started again when it fails, from its last checkpoint; default 0. */
  readonly restarts?: number;
  /** Called before the run is started again. */
  readonly onRestart?: (failed: LaunchResult, restart: number) => void;
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
  /** Seconds that workers get to end after they were asked to, before they are killed; default 5. If given, SIGTERM lets trainings save first. */
  readonly grace?: number;
  /** Where a notice of the machine's end comes from, `aws`, `gcp`, `azure` or the path of a file; the notice is like SIGTERM, with a `grace` of 25. */
  readonly notice?: string;
  /** The mesh, if the file names none, such as `data=2,model=2`. */
  readonly mesh?: string;
  /** Number of parameter servers; 0: the workers are servers, too. Default: none. */
  readonly servers?: number;
  /** Who waits for whom in a training on parameter servers, if the file does not say it, such as `ssp:3`. */
  readonly policy?: string;
  /** The compressor of gradients, if the file names none, such as `topK`. */
  readonly compression?: string;
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
  /** Number of all workers of the run, of which another launcher may have started the others. */
  readonly size: number;
  /** The folder of a failed run whose workers had joined each other. */
  readonly records?: string;
  /** The rank for which the others waited for a quarter of the time or more. */
  readonly straggler?: Straggler;
  /** The text of the plan; undefined without the option `plan`, or if the file ended without calling `train`. */
  readonly plan?: string;
  /** Whether several workers succeeded without joining each other: each has run the whole file by itself. */
  readonly apart?: boolean;
  /** The given mesh, if the run succeeded and nothing ran on the mesh. */
  readonly unusedMesh?: string | undefined;
  /** The file of the given plan, if the run succeeded and no worker used the plan. */
  readonly unusedPlan?: string | undefined;
}

const flagOf = { hosts: "--hosts", with: "--with", on: "--on", minWorkers: "the least number of --workers" } as const;

/** A policy that `train` does not take on servers is refused before processes start. @throws HeddleError `option` */
function checkPolicy({ policy, servers, plan }: LaunchOptions, workers: number): void {
  if (policy === undefined) return;
  const made = policyNamed(policy);
  if (servers !== undefined) checkServerPolicy(made, plan === undefined ? workers : Infinity);
}

/** The file name extensions of programs. */
const scripts = [".ts", ".mts", ".cts", ".tsx", ".js", ".mjs", ".cjs", ".jsx"];

/** @throws HeddleError `file` or `option` naming what is wrong */
export function checkOptions(options: LaunchOptions, workers: number): void {
  const { file, threads, port, timeout, grace, restarts, minWorkers } = options;
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
  check("minWorkers", minWorkers, 1, workers);
  check("threads", threads, 1, 1024);
  check("port", port, 0, 65_535);
  check("timeout", timeout, 1, 86_400);
  check("grace", grace, 0, 86_400);
  check("restarts", restarts, 0, 1_000_000);
  check("servers", options.servers, 0, 64);
  checkPolicy(options, workers);
  if (options.servers === undefined) return;
  for (const name of ["hosts", "with", "on", "minWorkers"] as const)
    if (options[name] !== undefined)
      throw new HeddleError("option", `--servers starts servers on this machine: leave out ${flagOf[name]}`);
  if (options.mesh !== undefined)
    throw new HeddleError("option", "--mesh does not go with --servers: each worker has the whole model", {
      hint: "--workers says how many workers share each batch",
    });
}
