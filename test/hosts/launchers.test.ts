import { afterEach, expect, test, vi } from "vitest";
import { connect } from "../../src/functions/index.ts";
import { launcherProblem, launchers, type Place, placeAmong } from "../../src/hosts/launchers.ts";
import { expandHosts } from "../../src/hosts/slurm-nodes.ts";

afterEach(() => vi.unstubAllEnvs());

const loopback = { MASTER_ADDR: "127.0.0.1" };

test.each(launchers)("$name: one of several has its place, or is told what is missing", ({ name, rank, size }) => {
  const second = launcherProblem({ [rank]: "1" });
  expect(second?.message).toBe(
    `the environment says that this process is one of several (${rank}=1: ${name}), but not of how many`,
  );
  expect(second?.hint).toMatch(/^set RANK, WORLD_SIZE, MASTER_ADDR .*; if each process .* set HEDDLE_ALONE=1$/);
  expect(placeAmong({ [rank]: "1", HEDDLE_ALONE: "1" })).toBeUndefined();
  expect(placeAmong({ [rank]: "1", HEDDLE_LAUNCHER: "99" })).toBeUndefined();
  expect(placeAmong({ [rank]: "0" })).toBeUndefined();
  if (size === undefined) return;
  const place = placeAmong({ [rank]: "3", [size]: "4", ...loopback }) as Place;
  expect(place).toMatchObject({ launcher: name, rank: 3, size: 4 });
  expect(place.variables).toMatchObject({ RANK: "3", WORLD_SIZE: "4", ...loopback });
  expect(launcherProblem({ [rank]: "4", [size]: "4", ...loopback })?.message).toContain("no rank of theirs");
  expect(placeAmong({ [rank]: "0", [size]: "1" })).toBeUndefined();
  expect(placeAmong({ [rank]: "", [size]: "" })).toBeUndefined();
});

/** What launchers of one job set for one of its processes, as they were read from them. */
const jobs: { name: string; variables: Record<string, string>; has: Record<string, string> | RegExp }[] = [
  {
    name: "torchrun on one host",
    variables: {
      RANK: "1",
      LOCAL_RANK: "1",
      WORLD_SIZE: "2",
      LOCAL_WORLD_SIZE: "2",
      MASTER_ADDR: "127.0.0.1",
      MASTER_PORT: "29500",
      TORCHELASTIC_USE_AGENT_STORE: "True",
      TORCHELASTIC_RUN_ID: "none",
      TORCHELASTIC_RESTART_COUNT: "2",
    },
    has: { MASTER_PORT: "29501", LOCAL_RANK: "1", HEDDLE_RUN_ID: "none", HEDDLE_EPOCH: "2" },
  },
  {
    name: "srun on two hosts",
    variables: {
      SLURM_PROCID: "2",
      SLURM_STEP_NUM_TASKS: "4",
      SLURM_LOCALID: "0",
      SLURM_JOB_ID: "77",
      SLURM_STEP_ID: "0",
      SLURM_STEP_NODELIST: "node[07-08]",
      SLURM_JOB_NODELIST: "node[01-08]",
      HEDDLE_SECRET: "s",
    },
    has: { RANK: "2", WORLD_SIZE: "4", LOCAL_RANK: "0", MASTER_ADDR: "node07", HEDDLE_RUN_ID: "77.0" },
  },
  {
    name: "srun on two hosts without a secret",
    variables: { SLURM_PROCID: "2", SLURM_STEP_NUM_TASKS: "4", SLURM_STEP_NODELIST: "node[07-08]" },
    has: /no secret for links to other hosts \(rank 0 is on node07\)\n.*HEDDLE_SECRET_FILE=/,
  },
  {
    name: "srun on one host",
    variables: { SLURM_PROCID: "1", SLURM_STEP_NUM_TASKS: "2", SLURM_STEP_NODELIST: "node07" },
    has: { MASTER_ADDR: "127.0.0.1", MASTER_PORT: "29500", HEDDLE_RUN_ID: "default" },
  },
  {
    name: "Open MPI on one host",
    variables: {
      OMPI_COMM_WORLD_RANK: "0",
      OMPI_COMM_WORLD_SIZE: "2",
      OMPI_COMM_WORLD_LOCAL_RANK: "0",
      OMPI_COMM_WORLD_LOCAL_SIZE: "2",
      PMIX_NAMESPACE: "prterun-desk-12@1",
      PMIX_RANK: "0",
    },
    has: { RANK: "0", LOCAL_WORLD_SIZE: "2", MASTER_ADDR: "127.0.0.1", HEDDLE_RUN_ID: "prterun-desk-12@1" },
  },
  {
    name: "Open MPI on several hosts",
    variables: { OMPI_COMM_WORLD_RANK: "0", OMPI_COMM_WORLD_SIZE: "4", OMPI_COMM_WORLD_LOCAL_SIZE: "2" },
    has: /not on which host rank 0 is\n.*mpirun -x MASTER_ADDR/,
  },
  {
    name: "MPICH with an address by hand",
    variables: { PMI_RANK: "3", PMI_SIZE: "4", MPI_LOCALRANKID: "1", MASTER_ADDR: "a", HEDDLE_SECRET_FILE: "/run/s" },
    has: { RANK: "3", LOCAL_RANK: "1", MASTER_ADDR: "a", MASTER_PORT: "29500" },
  },
  {
    name: "an indexed job of Kubernetes with size and address by hand",
    variables: { JOB_COMPLETION_INDEX: "1", WORLD_SIZE: "2", MASTER_ADDR: "job-0.job", HEDDLE_SECRET_FILE: "/run/s" },
    has: { RANK: "1", WORLD_SIZE: "2", MASTER_ADDR: "job-0.job" },
  },
];

test.each(jobs)("$name", ({ variables, has }) => {
  const place = placeAmong(variables);
  if (has instanceof RegExp) {
    const { message, hint } = launcherProblem(variables) ?? { message: "", hint: "" };
    expect(`${message}\n${hint}`).toMatch(has);
  } else expect((place as Place).variables).toMatchObject(has);
});

test("two jobs of one host get different ports, all processes of a job the same", () => {
  const portOf = (job: string, rank: string): unknown =>
    (placeAmong({ SLURM_PROCID: rank, SLURM_STEP_NUM_TASKS: "2", SLURM_JOB_ID: job, ...loopback }) as Place).variables[
      "MASTER_PORT"
    ];
  expect(portOf("77", "0")).toBe(portOf("77", "1"));
  expect(portOf("77", "0")).not.toBe(portOf("78", "0"));
  expect(Number(portOf("77", "0"))).toBeGreaterThanOrEqual(61_440);
  expect(Number(portOf("77", "0"))).toBeLessThan(65_536);
});

test("a batch script of Slurm is one process, whatever the job has room for", () => {
  expect(placeAmong({ SLURM_NTASKS: "4", SLURM_PROCID: "0" })).toBeUndefined();
});

test("what cannot meet is refused where the processes would meet, unless each is alone", async () => {
  vi.stubEnv("WORLD_SIZE", "2");
  vi.stubEnv("RANK", "1");
  vi.stubEnv("MASTER_ADDR", "node7");
  expect(() => connect()).toThrow(/one of 2 \(WORLD_SIZE=2, RANK=1: torchrun\), but no secret/);
  vi.stubEnv("HEDDLE_ALONE", "1");
  expect((await connect()).world).toBe(1);
});

test.each([
  ["node7", ["node7"]],
  ["node[001-003,007],h2", ["node001", "node002", "node003", "node007", "h2"]],
  ["r[1-2]n[9-10]x", ["r1n9x", "r1n10x", "r2n9x", "r2n10x"]],
  ["a,b", ["a", "b"]],
])("the list of hosts %s", (list, hosts) => expect(expandHosts(list)).toEqual(hosts));

test.each(["node[", "node[3-1]", "a,,b", "node[1-999999999]", "a b", "node[x]"])("the list '%s' is malformed", (list) =>
  expect(() => expandHosts(list)).toThrow(/the list of hosts .* is malformed/),
);
