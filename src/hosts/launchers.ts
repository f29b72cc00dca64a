/** @module The programs that start processes beside Heddle's own: the variables by which each process knows its place among them. */
import { HeddleError } from "../util/errors.ts";
import { ownVariables, readEnvironment, setVariables, type Variables } from "../util/settings.ts";
import { expandHosts } from "./slurm-nodes.ts";

/** A program that starts the processes of a job, and the variables that tell each process its place. */
export interface Launcher {
  /** The launcher's name for users. */
  readonly name: string;
  /** The variable with the number of this process, from 0 on. */
  readonly rank: string;
  /** The variable with the number of processes; absent if the launcher sets none. */
  readonly size?: string;
  /** The variable with the number of this process on its host. */
  readonly localRank?: string;
  /** The variable with the number of processes on this host. */
  readonly localSize?: string;
  /** Variables with the hosts, rank 0's first: the first that is set counts. */
  readonly hosts?: readonly string[];
  /** Variables that identify the job, and together the run. */
  readonly job?: readonly string[];
  /** The variable that counts how often the job was started again. */
  readonly restarts?: string;
}

/** The known launchers. */
export const launchers: readonly Launcher[] = [
  {
    name: "torchrun",
    rank: "RANK",
    size: "WORLD_SIZE",
    localRank: "LOCAL_RANK",
    localSize: "LOCAL_WORLD_SIZE",
    job: ["TORCHELASTIC_RUN_ID"],
    restarts: "TORCHELASTIC_RESTART_COUNT",
  },
  {
    name: "srun of Slurm",
    rank: "SLURM_PROCID",
    // A batch script is one process, whatever SLURM_NTASKS says: only srun's own variable counts the started processes.
    size: "SLURM_STEP_NUM_TASKS",
    localRank: "SLURM_LOCALID",
    hosts: ["SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_LAUNCH_NODE_IPADDR"],
    job: ["SLURM_JOB_ID", "SLURM_STEP_ID"],
    restarts: "SLURM_RESTART_COUNT",
  },
  {
    name: "mpirun of Open MPI",
    rank: "OMPI_COMM_WORLD_RANK",
    size: "OMPI_COMM_WORLD_SIZE",
    localRank: "OMPI_COMM_WORLD_LOCAL_RANK",
    localSize: "OMPI_COMM_WORLD_LOCAL_SIZE",
    job: ["PMIX_NAMESPACE"],
  },
  {
    name: "mpiexec of MPICH or Intel MPI",
    rank: "PMI_RANK",
    size: "PMI_SIZE",
    localRank: "MPI_LOCALRANKID",
    localSize: "MPI_LOCALNRANKS",
  },
  {
    name: "mpirun of MVAPICH",
    rank: "MV2_COMM_WORLD_RANK",
    size: "MV2_COMM_WORLD_SIZE",
    localRank: "MV2_COMM_WORLD_LOCAL_RANK",
    localSize: "MV2_COMM_WORLD_LOCAL_SIZE",
  },
  {
    name: "jsrun of LSF",
    rank: "JSM_NAMESPACE_RANK",
    size: "JSM_NAMESPACE_SIZE",
    localRank: "JSM_NAMESPACE_LOCAL_RANK",
  },
  {
    name: "flux run",
    rank: "FLUX_TASK_RANK",
    size: "FLUX_JOB_SIZE",
    localRank: "FLUX_TASK_LOCAL_ID",
    job: ["FLUX_JOB_ID"],
  },
  { name: "mpiexec of PALS", rank: "PALS_RANKID" },
  { name: "PMIx", rank: "PMIX_RANK" },
  {
    name: "horovodrun",
    rank: "HOROVOD_RANK",
    size: "HOROVOD_SIZE",
    localRank: "HOROVOD_LOCAL_RANK",
    localSize: "HOROVOD_LOCAL_SIZE",
  },
  { name: "an indexed job of Kubernetes", rank: "JOB_COMPLETION_INDEX" },
  { name: "a job of Cloud Run", rank: "CLOUD_RUN_TASK_INDEX", size: "CLOUD_RUN_TASK_COUNT" },
  { name: "a multi-node job of AWS Batch", rank: "AWS_BATCH_JOB_NODE_INDEX", size: "AWS_BATCH_JOB_NUM_NODES" },
];

/** The place of a process that another launcher has started, in torchrun's variables and Heddle's. */
export interface Place {
  /** The launcher's name for users. */
  readonly launcher: string;
  readonly rank: number;
  readonly size: number;
  readonly variables: Variables;
}

/** A problem of the environment, and how to solve it. */
export interface LauncherProblem {
  readonly message: string;
  readonly hint: string;
}

/** PyTorch's default. */
const defaultPort = 29_500;

/** Whether an address of a host stays on the host. */
export const isLoopback = (host: string): boolean => /^(localhost|127(\.\d{1,3}){3}|::1|\[::1\])$/i.test(host);

const secretHint =
  "let all its processes have one secret: HEDDLE_SECRET_FILE=<a file that only you can read>, or HEDDLE_SECRET in the environment that " +
  "the launcher hands on (export HEDDLE_SECRET=$(openssl rand -hex 32); srun hands it on, mpirun -x HEDDLE_SECRET too); never write it on a command line";

const aloneHint = "if each process is meant to be a run of its own, set HEDDLE_ALONE=1";

/**
 * The place of this process if another launcher has started it as one of several: a size above 1, or a rank above 0. Undefined if no
 * variable says so, if Heddle's own launcher has set the variables, or with `HEDDLE_ALONE=1`, by which each process is a run of its own.
 * A problem if the processes cannot meet.
 *
 * @throws HeddleError `environment` as {@link readEnvironment} does.
 */
export function placeAmong(variables: Variables = ownVariables()): Place | LauncherProblem | undefined {
  const { alone, launcher: ownLauncher, secret, secretFile } = readEnvironment(variables);
  if (alone || ownLauncher !== undefined) return undefined;
  const number = (name: string | undefined): number => Number(variables[name ?? ""] || Number.NaN);
  const launcher = launchers.find(({ rank, size }) => number(size) > 1 || number(rank) > 0);
  if (launcher === undefined) return undefined;
  const size = number(launcher.size);
  // A size by hand may stand beside the rank of another launcher, as in a job of Kubernetes.
  const byRank = launchers.find(({ rank }) => !Number.isNaN(number(rank)));
  const rank = number(byRank?.rank);
  const named = [launcher.size, byRank?.rank].flatMap((name) =>
    name === undefined || !variables[name] ? [] : [`${name}=${variables[name]}`],
  );
  const problem = (but: string, hint: string): LauncherProblem => ({
    message:
      `the environment says that this process is one of ${size > 1 ? size : "several"} ` +
      `(${named.join(", ")}: ${launcher.name}), but ${but}`,
    hint: `${hint}; ${aloneHint}`,
  });
  if (!(size > 1) || Number.isNaN(rank))
    return problem(
      `not ${size > 1 ? "which of them" : "of how many"}`,
      "set RANK, WORLD_SIZE, MASTER_ADDR (rank 0's host) and MASTER_PORT for each process",
    );
  if (rank >= size) return problem("that is no rank of theirs", `ranks are 0 to ${size - 1}`);
  const host = hostOf(launcher, variables, size);
  if (host === undefined)
    return problem(
      "not on which host rank 0 is",
      "set MASTER_ADDR to rank 0's host for all processes, such as mpirun -x MASTER_ADDR",
    );
  if (secret === undefined && secretFile === undefined && !isLoopback(host))
    return problem(`no secret for links to other hosts (rank 0 is on ${host})`, secretHint);
  return { launcher: launcher.name, rank, size, variables: standard({ launcher, rank, size, host }, variables) };
}

/** Rank 0's host; undefined if no variable tells it. */
function hostOf(launcher: Launcher, variables: Variables, size: number): string | undefined {
  if (variables["MASTER_ADDR"]) return variables["MASTER_ADDR"];
  const list = launcher.hosts?.map((name) => variables[name]).find((value) => value);
  const hosts = list === undefined ? [] : expandHosts(list);
  const onOneHost = Number(variables[launcher.localSize ?? ""]) === size || hosts.length === 1;
  return onOneHost ? "127.0.0.1" : hosts[0];
}

interface Found {
  readonly launcher: Launcher;
  readonly rank: number;
  readonly size: number;
  readonly host: string;
}

/** A place in torchrun's variables and Heddle's. */
function standard({ launcher, rank, size, host }: Found, variables: Variables): Variables {
  const job = (launcher.job ?? []).map((name) => variables[name]).filter((value) => value);
  const run = job.length === 0 ? undefined : job.join(".");
  const restarts = variables[launcher.restarts ?? ""];
  const localRank = variables[launcher.localRank ?? ""];
  const localSize = variables[launcher.localSize ?? ""];
  return {
    RANK: String(rank),
    WORLD_SIZE: String(size),
    MASTER_ADDR: host,
    MASTER_PORT: String(portOf(variables, run)),
    HEDDLE_RUN_ID: variables["HEDDLE_RUN_ID"] || run || "default",
    ...(localRank ? { LOCAL_RANK: localRank } : {}),
    ...(localSize ? { LOCAL_WORLD_SIZE: localSize } : {}),
    ...(restarts && !variables["HEDDLE_EPOCH"] ? { HEDDLE_EPOCH: restarts } : {}),
  };
}

/** The port of rank 0's store, which every process finds by itself. */
function portOf(variables: Variables, run: string | undefined): number {
  const port = variables["MASTER_PORT"];
  // torchrun's own store has the port.
  if (port) return Number(port) + (variables["TORCHELASTIC_USE_AGENT_STORE"] === "True" ? 1 : 0);
  if (run === undefined) return defaultPort;
  // As JAX does: two jobs of one host seldom get the same port.
  const sum = [...run].reduce((hash, letter) => (hash * 31 + letter.charCodeAt(0)) % 4093, 0);
  return 61_440 + sum;
}

/** The problem if another launcher has started this process as one of several that cannot meet. */
export function launcherProblem(variables: Variables = ownVariables()): LauncherProblem | undefined {
  const place = placeAmong(variables);
  return place !== undefined && "message" in place ? place : undefined;
}

/**
 * Takes the place that another launcher gives this process: sets the variables by which the processes of `heddle run` join. Does nothing
 * in a process that no other launcher has started as one of several.
 *
 * @throws HeddleError `launcher` naming the variables, their values and what to do, if the processes cannot meet.
 */
export function takePlace(): Place | undefined {
  const place = placeAmong();
  if (place === undefined) return undefined;
  if ("message" in place) throw new HeddleError("launcher", place.message, { hint: place.hint });
  setVariables(place.variables);
  return place;
}
