/** @module MPI: mpirun of Open MPI, or mpiexec of MPICH and what descends from it (Intel MPI, MVAPICH). */
import { ownVariables } from "../../util/settings.ts";
import type { HostShare } from "../host-list.ts";
import type { AgentsWanted, Engine, EngineCommand } from "./engine.ts";
import { outputOf } from "./programs.ts";

interface Mpi {
  readonly program: string;
  readonly kind: "open" | "hydra";
}

/** The first program of this machine that starts MPI processes. */
function findMpi(): Mpi | undefined {
  for (const program of ["mpirun", "mpiexec"]) {
    const version = outputOf(program, ["--version"]);
    if (version !== undefined) return { program, kind: /open ?mpi|openrte|prrte/i.test(version) ? "open" : "hydra" };
  }
  return undefined;
}

/** Variables of schedulers whose hosts mpirun uses by itself. */
const allocations = ["SLURM_JOB_ID", "PBS_NODEFILE", "LSB_HOSTS", "PE_HOSTFILE"];

const here = (hosts: readonly HostShare[] | undefined): boolean =>
  hosts === undefined && !allocations.some((name) => ownVariables()[name]);

// As variables, so that flags of the user's take precedence. Workers of a run may be more than cores, and share them out by themselves.
const openDefaults = {
  OMPI_MCA_rmaps_base_oversubscribe: "1",
  OMPI_MCA_hwloc_base_binding_policy: "none",
  PRTE_MCA_rmaps_default_mapping_policy: ":oversubscribe",
  PRTE_MCA_hwloc_default_binding_policy: "none",
};

function command({ count, hosts, command: agent, args }: AgentsWanted): EngineCommand {
  const { program, kind } = findMpi() as Mpi;
  const list = hosts?.map(({ host, workers }) => `${host}:${workers}`).join(",");
  if (kind === "hydra") {
    const where = list === undefined ? [] : ["-hosts", list];
    return { program, args: ["-n", String(count), ...where, ...args, ...agent] };
  }
  const where = list === undefined ? [] : ["--host", list];
  return {
    program,
    // The variable's name alone: values on a command line show to everybody.
    args: ["-n", String(count), ...where, "-x", "HEDDLE_SECRET", ...args, ...agent],
    variables: openDefaults,
  };
}

export const mpi: Engine = {
  name: "mpi",
  title: "MPI",
  summary: "mpirun of Open MPI, or mpiexec of MPICH or Intel MPI; with --hosts on those hosts",
  missing: async () =>
    findMpi() === undefined
      ? {
          message: "there is neither mpirun nor mpiexec here",
          hint: "Debian: apt-get install openmpi-bin, or mpich; elsewhere: pip install mpich; a cluster: module load openmpi",
        }
      : undefined,
  agents: { rankVariables: ["OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"], takesHosts: true, here, command },
};
