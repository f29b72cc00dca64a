import { describe, expect, test } from "vitest";
import { threadsPerWorker, usableCores } from "../../src/launch/index.ts";

/** A system whose files are these. */
const system = (files: Record<string, string>) => (path: string) => files[path];

describe("usable cores", () => {
  test.each([
    { name: "no control groups", files: {}, affinity: 8, usable: 8, quota: undefined },
    {
      name: "no quota",
      files: { "/proc/self/cgroup": "0::/\n", "/sys/fs/cgroup/cpu.max": "max 100000\n" },
      affinity: 8,
      usable: 8,
      quota: undefined,
    },
    {
      name: "a quota of the container",
      files: { "/proc/self/cgroup": "0::/\n", "/sys/fs/cgroup/cpu.max": "250000 100000\n" },
      affinity: 8,
      usable: 2,
      quota: 2.5,
    },
    {
      name: "the tightest of nested quotas",
      files: {
        "/proc/self/cgroup": "0::/a/b\n",
        "/sys/fs/cgroup/a/cpu.max": "300000 100000\n",
        "/sys/fs/cgroup/a/b/cpu.max": "400000 100000\n",
      },
      affinity: 8,
      usable: 3,
      quota: 3,
    },
    {
      name: "less than one core",
      files: { "/sys/fs/cgroup/cpu.max": "50000 100000\n" },
      affinity: 4,
      usable: 1,
      quota: 0.5,
    },
    {
      name: "version 1",
      files: {
        "/sys/fs/cgroup/cpu/cpu.cfs_quota_us": "200000\n",
        "/sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
      },
      affinity: 4,
      usable: 2,
      quota: 2,
    },
    {
      name: "version 1 without a quota",
      files: { "/sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n", "/sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n" },
      affinity: 4,
      usable: 4,
      quota: undefined,
    },
    {
      name: "a quota above the affinity",
      files: { "/sys/fs/cgroup/cpu.max": "800000 100000\n" },
      affinity: 2,
      usable: 2,
      quota: 8,
    },
  ])("$name", ({ files, affinity, usable, quota }) => {
    expect(usableCores(system(files as Record<string, string>), affinity)).toEqual({ usable, affinity, quota });
  });

  test("are divided among the workers, at least one each", () => {
    expect([1, 2, 3, 8].map((workers) => threadsPerWorker(4, workers))).toEqual([4, 2, 1, 1]);
  });
});
