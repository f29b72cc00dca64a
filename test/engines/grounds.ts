/** @module The engines that the conformance suite runs on: what each needs here, and how it is started. */
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import type { Desk } from "./desk.ts";
import { startSlurm } from "./slurm-cluster.ts";

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
  /** Whether a run goes on when its command is killed. */
  readonly outlivesCommand?: boolean;
  /** The signal that the run's launcher gets for one that its command gets; the same by default. */
  readonly toldOf?: (signal: string) => string;
}

export const lacksProgram =
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

const rayFolder = fileURLToPath(new URL("../../.heddle/engines/bin", import.meta.url));

/** Starts a cluster of one node, which ends with the desk. */
async function startRay(desk: Desk): Promise<Record<string, string>> {
  // The path of a socket may not be longer than 107 characters.
  const folder = mkdtempSync("/tmp/ray-");
  const variables = { PATH: `${rayFolder}:${process.env["PATH"]}`, RAY_TMPDIR: folder };
  const words = [
    "--head",
    "--block",
    "--node-ip-address=127.0.0.1",
    "--num-cpus=32",
    "--object-store-memory=100000000",
  ];
  const head = desk.daemon(
    [
      join(rayFolder, "ray"),
      "start",
      ...words,
      "--disable-usage-stats",
      "--dashboard-host=127.0.0.1",
      `--temp-dir=${folder}`,
    ],
    variables,
  );
  desk.onDispose(() => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }));
  const address = "http://127.0.0.1:8265";
  for (let tries = 0; tries < 200; tries++) {
    const ask = ["curl", "--silent", "--fail", "--max-time", "5", `${address}/api/jobs/`];
    if ((await desk.start(ask).ended).status === 0) return { ...variables, RAY_API_SERVER_ADDRESS: address };
    if (head.child.exitCode !== null) break;
    await sleep(500);
  }
  throw new Error(`Ray does not start:\n${head.output()}`);
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
  {
    name: "Slurm",
    flags: ["--with", "slurm"],
    lacks: lacksProgram("Debian: apt-get install slurm-wlm", "srun", "slurmctld", "slurmd", "munged"),
    open: startSlurm,
  },
  {
    name: "Ray",
    // Processes of Python take long to start where 32 share two cores.
    flags: ["--with", "ray", "--timeout", "300"],
    lacks: () =>
      spawnSync(join(rayFolder, "ray"), ["--version"]).status === 0
        ? undefined
        : "there is no Ray in .heddle/engines (docs/engines/ray.md)",
    open: startRay,
    oneStream: true,
    outlivesCommand: true,
    // Ray stops a job by SIGTERM alone.
    toldOf: (signal) => (signal === "SIGINT" ? "SIGTERM" : signal),
  },
];
