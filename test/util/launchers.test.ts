import { afterEach, expect, test, vi } from "vitest";
import { connect } from "../../src/functions/index.ts";
import { launcherProblem, launchers } from "../../src/util/launchers.ts";

afterEach(() => vi.unstubAllEnvs());

test.each(launchers)("$name: one of several is refused, the only one is not", ({ name, rank, size }) => {
  const second = launcherProblem({ [rank]: "1" });
  expect(second?.message).toBe(
    `the environment says that this process is one of several (${rank}=1: ${name}), ` +
      "but Heddle does not join the others: each would train a whole model of its own",
  );
  expect(second?.hint).toContain("--workers <n>; if each process is meant to be a run of its own, set HEDDLE_ALONE=1");
  expect(launcherProblem({ [rank]: "1", HEDDLE_ALONE: "1" })).toBeUndefined();
  expect(launcherProblem({ [rank]: "1", HEDDLE_LAUNCHER: "99" })).toBeUndefined();
  expect(launcherProblem({ [rank]: "0" })).toBeUndefined();
  if (size === undefined) return;
  const first = launcherProblem({ [rank]: "0", [size]: "4" });
  expect(first?.message).toContain(`one of 4 (${size}=4, ${rank}=0: ${name})`);
  expect(first?.hint).toContain("--workers 4");
  expect(launcherProblem({ [rank]: "0", [size]: "1" })).toBeUndefined();
  expect(launcherProblem({ [rank]: "", [size]: "" })).toBeUndefined();
});

test("a batch script of Slurm is one process, whatever the job has room for", () => {
  expect(launcherProblem({ SLURM_NTASKS: "4", SLURM_PROCID: "0" })).toBeUndefined();
});

test("whoever hands out the secret of a run has its processes join", () => {
  expect(launcherProblem({ RANK: "1", WORLD_SIZE: "2", HEDDLE_SECRET: "00" })).toBeUndefined();
  expect(launcherProblem({ PMI_RANK: "1", HEDDLE_SECRET: "00" })).toBeDefined();
});

test("without Heddle's launcher it is refused where the processes would meet, unless each is alone", async () => {
  vi.stubEnv("WORLD_SIZE", "2");
  vi.stubEnv("RANK", "1");
  expect(() => connect()).toThrow(/one of 2 \(WORLD_SIZE=2, RANK=1: torchrun\)/);
  vi.stubEnv("HEDDLE_ALONE", "1");
  expect((await connect()).world).toBe(1);
});
