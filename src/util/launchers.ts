/** @module Environment variables of other launchers, and why Heddle refuses to run under them. */
import { HeddleError } from "./errors.ts";
import { ownVariables, readEnvironment, type Variables } from "./settings.ts";

/** A program that starts the processes of a job, and the variables that tell each process its number. */
export interface Launcher {
  /** The launcher's name for users. */
  readonly name: string;
  /** The variable with the number of this process, from 0 on. */
  readonly rank: string;
  /** The variable with the number of processes; absent if the launcher sets none. */
  readonly size?: string;
}

/** The known launchers. */
export const launchers: readonly Launcher[] = [
  { name: "torchrun", rank: "RANK", size: "WORLD_SIZE" },
  // A batch script is one process, whatever SLURM_NTASKS says: only srun's own variable counts the started processes.
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

/** A problem of the environment, and how to solve it. */
export interface LauncherProblem {
  readonly message: string;
  readonly hint: string;
}

/**
 * The problem if another launcher has started this process as one of several: a size above 1, or a rank above 0. Undefined if no
 * variable says so, if Heddle's own launcher has set the variables, or with `HEDDLE_ALONE=1`, by which each process is a run of its own.
 *
 * @throws HeddleError `environment` as {@link readEnvironment} does.
 */
export function launcherProblem(variables: Variables = ownVariables()): LauncherProblem | undefined {
  const { alone, launcher, secret, world } = readEnvironment(variables);
  // With the secret of a run beside rank and size, the processes join.
  if (alone || launcher !== undefined || (secret !== undefined && world > 1)) return undefined;
  const number = (name: string | undefined): number => Number(variables[name ?? ""] || Number.NaN);
  const otherLauncher = launchers.find(({ rank, size }) => number(size) > 1 || number(rank) > 0);
  if (otherLauncher === undefined) return undefined;
  const size = number(otherLauncher.size);
  const named = [otherLauncher.size, otherLauncher.rank].flatMap((name) =>
    name === undefined || !variables[name] ? [] : [`${name}=${variables[name]}`],
  );
  return {
    message:
      `the environment says that this process is one of ${size > 1 ? size : "several"} (${named.join(", ")}: ${otherLauncher.name}), ` +
      "but Heddle does not join the others: each would train a whole model of its own",
    hint:
      `start one process, which starts its workers itself: heddle run <file> --workers ${size > 1 ? size : "<n>"}; ` +
      "if each process is meant to be a run of its own, set HEDDLE_ALONE=1",
  };
}

/**
 * Refuses to run as one of several processes of another launcher: each would do the whole work.
 *
 * @throws HeddleError `launcher` naming the variables, their values and what to do.
 */
export function refuseOtherLaunchers(): void {
  const problem = launcherProblem();
  if (problem !== undefined) throw new HeddleError("launcher", problem.message, { hint: problem.hint });
}
