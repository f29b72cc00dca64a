/** @module The engines that the conformance suite runs on: what each needs here, and how it is started. */
import { spawnSync } from "node:child_process";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import type { Desk } from "./desk.ts";

/** An engine under test. */
export interface Ground {
  readonly name: string;
  /** Flags of `heddle run` for the engine. */
  readonly flags: readonly string[];
  /** Why it cannot run here; undefined if it can. */
  readonly lacks: () => string | undefined;
  /** Starts what it needs; gives the variables for `heddle run`. */
  readonly open: (desk: Desk) => Promise<Record<string, string>>;
  /** Whether the run's output and errors come in one stream. */
  readonly oneStream?: boolean;
}

const lacksProgram =
  (from: string, ...programs: string[]) =>
  (): string | undefined => {
    const absent = programs.filter((program) => spawnSync("which", [program]).status !== 0);
    return absent.length === 0 ? undefined : `there is no ${absent.join(", ")} here: ${from}`;
  };

/** An mpirun that stands first in PATH. */
async function firstMpi(desk: Desk, program: string): Promise<Record<string, string>> {
  const folder = join(desk.folder, program);
  mkdirSync(folder);
  desk.program(folder, "mpirun", `exec ${program} "$@"`);
  return {
    PATH: `${folder}:${process.env["PATH"]}`,
    OMPI_ALLOW_RUN_AS_ROOT: "1",
    OMPI_ALLOW_RUN_AS_ROOT_CONFIRM: "1",
  };
}

/** All engines; the built-in launcher first. */
export const grounds: readonly Ground[] = [
  { name: "the built-in launcher", flags: [], lacks: () => undefined, open: async () => ({}) },
  {
    name: "Open MPI",
    flags: ["--with", "mpi"],
    lacks: lacksProgram("Debian: apt-get install openmpi-bin", "mpirun.openmpi"),
    open: (desk) => firstMpi(desk, "mpirun.openmpi"),
  },
  {
    name: "MPICH",
    flags: ["--with", "mpi"],
    lacks: lacksProgram("Debian: apt-get install mpich", "mpirun.mpich"),
    open: (desk) => firstMpi(desk, "mpirun.mpich"),
  },
];
