/** @module The environment variables of a worker process. */

import type { ProfileRequest } from "../executors/index.ts";
import type { PlanForm } from "../util/settings.ts";

/** Settings that all workers of a run share. */
export interface RunEnvironment {
  readonly workers: number;
  readonly threads: number;
  readonly masterPort: number;
  readonly runId: string;
  /** 32 random bytes in hex, with which links authenticate. */
  readonly secret: string;
  readonly runDirectory: string;
  readonly executor?: string | undefined;
  readonly resume?: boolean | undefined;
  /** Show neither training reports nor warnings. */
  readonly quiet?: boolean | undefined;
  /** Seconds that a worker waits for another before it gives up. */
  readonly timeout?: number | undefined;
  /** The mesh, if the file names none. */
  readonly mesh?: string | undefined;
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

/** Environment variables by name. */
export interface EnvironmentVariables {
  readonly [name: string]: string | undefined;
}

/** The environment of worker `rank`: the inherited variables, with torchrun's variables and Heddle's own. */
export function workerEnvironment(
  run: RunEnvironment,
  rank: number,
  inherited: EnvironmentVariables,
): EnvironmentVariables {
  const optional: [string, string | undefined][] = [
    ["HEDDLE_EXECUTOR", run.executor],
    ["HEDDLE_RESUME", run.resume === true ? "1" : undefined],
    ["HEDDLE_QUIET", run.quiet === true ? "1" : undefined],
    // Node's own warnings, too.
    ["NODE_NO_WARNINGS", run.quiet === true ? "1" : undefined],
    ["HEDDLE_TIMEOUT", run.timeout?.toString()],
    ["HEDDLE_MESH", run.mesh],
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
    LOCAL_RANK: String(rank),
    WORLD_SIZE: String(run.workers),
    LOCAL_WORLD_SIZE: String(run.workers),
    MASTER_ADDR: "127.0.0.1",
    MASTER_PORT: String(run.masterPort),
    HEDDLE_RUN_ID: run.runId,
    HEDDLE_LAUNCHER: String(process.pid),
    // These describe the launcher's process, not the workers.
    HEDDLE_ALONE: "0",
    HEDDLE_WORKER: "",
    HEDDLE_EPOCH: "0",
    HEDDLE_SECRET: run.secret,
    HEDDLE_THREADS: String(run.threads),
    HEDDLE_RUN_DIR: run.runDirectory,
    ...Object.fromEntries(optional.filter(([, value]) => value !== undefined)),
  };
}
