/** @module What the launchers of others put into the environment of the processes that they start, and why Heddle refuses it. */
import { HeddleError } from "./errors.ts";
import { ownVariables, readEnvironment, type Variables } from "./settings.ts";

/** A program that starts many processes of one job, and the variables by which it tells each which one it is. */
export interface Launcher {
  /** What users know it by. */
  readonly name: string;
  /** The variable with the number of this process, from 0 on. */
  readonly rank: string;
  /** The variable with the number of processes; absent where there is none. */
  readonly size?: string;
}

/** The launchers that are known by their variables. */
export const launchers: readonly Launcher[] = [
  { name: "torchrun", rank: "RANK", size: "WORLD_SIZE" },
  // A batch script is one process, whatever SLURM_NTASKS says: only srun's own variable counts those that were started.
  { name: "srun of Slurm", rank: "SLURM_PROCID", size: "SLURM_STEP_NUM_TASKS" },
  { name: "mpirun of Open MPI", rank: "OMPI_COMM_WORLD_RANK", size: "OMPI_COMM_WORLD_SIZE" },
  { name: "mpiexec of MPICH or Intel MPI", rank: "PMI_RANK", size: "PMI_SIZE" },
  { name: "mpirun of MVAPICH", rank: "MV2_COMM_WORLD_RANK", size: "MV2_COMM_WORLD_SIZE" },
  { name: "jsrun of LSF", rank: "JSM_NAMESPACE_RANK", size: "JSM_NAMESPACE_SIZE" },
  { name: "flux run", rank: "FLUX_TASK_RANK", size: "FLUX_JOB_SIZE" },
  { name: "mpiexec of PALS", rank: "PALS_RANKID" },
  { name: "PMIx", rank: "PMIX_RANK" },
  { name: "horovodrun", rank: "HOROVOD_RANK", size: "HOROVOD_SIZE" },
  { name: "an indexed job of Kubernetes", rank: "JOB_COMPLETION_INDEX" },
  { name: "a job of Cloud Run", rank: "CLOUD_RUN_TASK_INDEX", size: "CLOUD_RUN_TASK_COUNT" },
  { name: "a multi-node job of AWS Batch", rank: "AWS_BATCH_JOB_NODE_INDEX", size: "AWS_BATCH_JOB_NUM_NODES" },
];

/** What is wrong with the environment, and what to do about it. */
export interface LauncherProblem {
  readonly message: string;
  readonly hint: string;
}

/**
 * What to say where another launcher than Heddle's has started this process as one of several; undefined where none has:
 * by no variable is there more than one process, Heddle's own launcher has set them, or `HEDDLE_ALONE=1` says that each is a
 * run of its own. More than one means a size of more than 1, or a rank of more than 0.
 *
 * @throws HeddleError `environment` as {@link readEnvironment} does.
 */
export function launcherProblem(variables: Variables = ownVariables()): LauncherProblem | undefined {
  const { alone, launcher, secret, world } = readEnvironment(variables);
  // Whoever hands out the secret of a run beside rank and size has its processes join.
  if (alone || launcher !== undefined || (secret !== undefined && world > 1)) return undefined;
  const number = (name: string | undefined): number => Number(variables[name ?? ""] || Number.NaN);
  const found = launchers.find(({ rank, size }) => number(size) > 1 || number(rank) > 0);
  if (found === undefined) return undefined;
  const size = number(found.size);
  const named = [found.size, found.rank].flatMap((name) =>
    name === undefined || !variables[name] ? [] : [`${name}=${variables[name]}`],
  );
  return {
    message:
      `the environment says that this process is one of ${size > 1 ? size : "several"} (${named.join(", ")}: ${found.name}), ` +
      "and Heddle does not join them: each would train a whole model of its own",
    hint:
      `start one process, which starts its workers itself: heddle run <file> --workers ${size > 1 ? size : "<n>"}; ` +
      "where each process is meant to be a run of its own, set HEDDLE_ALONE=1",
  };
}

/**
 * Refuses to be one of several processes of another launcher, of which each would do the whole work.
 *
 * @throws HeddleError `launcher` naming the variables, their values and what to do.
 */
export function refuseOtherLaunchers(): void {
  const problem = launcherProblem();
  if (problem !== undefined) throw new HeddleError("launcher", problem.message, { hint: problem.hint });
}
