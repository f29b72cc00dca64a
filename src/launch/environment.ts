/** @module The environment variables of a worker process. */

import type { ProfileRequest } from "../executors/index.ts";
import { allVariables, ownVariables, type PlanForm, type Variables } from "../util/settings.ts";

/** Settings that all workers of a run share. */
export interface RunEnvironment {
  /** Number of all workers. */
  readonly size: number;
  /** Rank 0's host, as all workers name it, and the port of the store there. */
  readonly masterHost: string;
  readonly masterPort: number;
  readonly runId: string;
  /** 32 random bytes in hex, with which links authenticate. */
  readonly secret: string;
  /** Membership epoch; default 0. */
  readonly epoch?: number | undefined;
  /** Whether the run goes on without lost workers; `new` for a worker in the place of a lost one. */
  readonly elastic?: "member" | "new" | undefined;
  readonly runDirectory: string;
  readonly executor?: string | undefined;
  readonly resume?: boolean | undefined;
  /** Show neither training reports nor warnings. */
  readonly quiet?: boolean | undefined;
  /** Seconds that a worker waits for another before it gives up. */
  readonly timeout?: number | undefined;
  /** The mesh, if the file names none. */
  readonly mesh?: string | undefined;
  /** Addresses of the parameter servers. */
  readonly serverAddresses?: readonly string[] | undefined;
  /** Whether the workers are the parameter servers. */
  readonly serve?: boolean | undefined;
  /** Who waits for whom on parameter servers, if the file does not say it. */
  readonly policy?: string | undefined;
  /** The compressor of gradients, if the file names none. */
  readonly compression?: string | undefined;
  /** The machine description for plans, as JSON: devices and links. */
  readonly machine?: string | undefined;
  /** Addresses of the waiting workers to drive. */
  readonly on?: string | undefined;
  /** File with the plan that a training uses. */
  readonly planFile?: string | undefined;
  /** Mesh of a plan to print instead of running, such as `data=2`; several with `;` between them. */
  readonly plan?: string | undefined;
  /** What to profile, and the folder of the results. */
  readonly profile?: ProfileRequest | undefined;
  /** The printed form of the plan; default a summary. */
  readonly planAs?: PlanForm | undefined;
}

/** A worker's place in its run and on its host. */
export interface WorkerPlace {
  readonly rank: number;
  readonly localRank: number;
  /** Number of workers on the host. */
  readonly localSize: number;
  readonly threads: number;
}

/** Environment variables by name. */
export interface EnvironmentVariables {
  readonly [name: string]: string | undefined;
}

/** The environment of a worker: the inherited variables, with torchrun's variables and Heddle's own. */
export function workerEnvironment(
  run: RunEnvironment,
  { rank, localRank, localSize, threads }: WorkerPlace,
  inherited: EnvironmentVariables,
): EnvironmentVariables {
  const optional: [string, string | undefined][] = [
    ["HEDDLE_EXECUTOR", run.executor],
    ["HEDDLE_ELASTIC", run.elastic],
    ["HEDDLE_RESUME", run.resume === true ? "1" : undefined],
    ["HEDDLE_QUIET", run.quiet === true ? "1" : undefined],
    // Node's own warnings, too.
    ["NODE_NO_WARNINGS", run.quiet === true ? "1" : undefined],
    ["HEDDLE_TIMEOUT", run.timeout?.toString()],
    ["HEDDLE_MESH", run.mesh],
    ["HEDDLE_COMPRESSION", run.compression],
    ["HEDDLE_POLICY", run.policy],
    ["HEDDLE_MACHINE", run.machine],
    ["HEDDLE_WORKERS", run.on],
    ["HEDDLE_PLAN", run.plan],
    ["HEDDLE_PLAN_FILE", run.planFile],
    ["HEDDLE_PROFILE", run.profile === undefined ? undefined : JSON.stringify(run.profile)],
    ["HEDDLE_PLAN_AS", run.plan === undefined ? undefined : run.planAs],
  ];
  return {
    ...inherited,
    RANK: String(rank),
    LOCAL_RANK: String(localRank),
    WORLD_SIZE: String(run.size),
    LOCAL_WORLD_SIZE: String(localSize),
    MASTER_ADDR: run.masterHost,
    MASTER_PORT: String(run.masterPort),
    HEDDLE_RUN_ID: run.runId,
    HEDDLE_LAUNCHER: String(process.pid),
    // These describe the launcher's process, not the workers.
    HEDDLE_ALONE: "0",
    HEDDLE_WORKER: "",
    HEDDLE_SERVERS: run.serverAddresses?.join(",") ?? "",
    HEDDLE_SERVER: "",
    HEDDLE_SERVE: run.serve === true ? "1" : "0",
    HEDDLE_EPOCH: String(run.epoch ?? 0),
    HEDDLE_SECRET: run.secret,
    HEDDLE_THREADS: String(threads),
    HEDDLE_RUN_DIR: run.runDirectory,
    ...Object.fromEntries(optional.filter(([, value]) => value !== undefined)),
  };
}

/** The `HEDDLE_…` variables that are set, as `NAME=value`; a secret is not shown. */
export function namedVariables(variables: Variables = ownVariables()): string[] {
  return Object.entries(variables)
    .filter(
      ([name, value]) =>
        allVariables.some((known) => known.name === name) && name.startsWith("HEDDLE_") && value !== "",
    )
    .map(([name, value]) => `${name}=${name.endsWith("_SECRET") ? "…" : value}`)
    .sort();
}
