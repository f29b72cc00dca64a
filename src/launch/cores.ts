/** @module The processor cores that this process may use, by affinity and its container's quota. */

import { readFileSync } from "node:fs";
import { availableParallelism } from "node:os";

/** Reads a file's text; undefined when it cannot be read. */
export type ReadText = (path: string) => string | undefined;

/** The limits of this process's cores. */
export interface Cores {
  /** Cores to plan with, at least 1. */
  readonly usable: number;
  /** Cores in the affinity mask. */
  readonly affinity: number;
  /** The container's quota in cores, possibly a fraction; undefined when there is none. */
  readonly quota: number | undefined;
}

/** The cores this process may use. */
export function usableCores(readText: ReadText = readTextIfThere, affinity: number = availableParallelism()): Cores {
  const quota = cpuQuota(readText);
  const usable = Math.max(1, Math.min(affinity, quota === undefined ? affinity : Math.floor(quota)));
  return { usable, affinity, quota };
}

/** Threads per worker of a host: an equal share, at least 1. */
export function threadsPerWorker(cores: number, workers: number): number {
  return Math.max(1, Math.floor(cores / workers));
}

/** The smallest quota of this process's control groups: version 2 (`cpu.max`), otherwise version 1. */
function cpuQuota(readText: ReadText): number | undefined {
  const groups = readText("/proc/self/cgroup") ?? "";
  const unified = /^0::(.*)$/m.exec(groups)?.[1] ?? "/";
  const quotas: number[] = [];
  for (const path of ancestors(unified)) {
    const [quota, period] = (readText(`/sys/fs/cgroup${path}/cpu.max`) ?? "").trim().split(" ").map(Number);
    quotas.push((quota ?? 0) / (period ?? 1));
  }
  const legacy = (name: string) => Number(readText(`/sys/fs/cgroup/cpu/${name}`) ?? Number.NaN);
  quotas.push(legacy("cpu.cfs_quota_us") / legacy("cpu.cfs_period_us"));
  // "max" and missing files give NaN or 0, a legacy quota of -1 a negative number.
  const limits = quotas.filter((cores) => cores > 0);
  return limits.length === 0 ? undefined : Math.min(...limits);
}

/** `/a/b` → `/a/b`, `/a`, and the root as "". */
function ancestors(path: string): string[] {
  const parts = path.split("/").filter((part) => part !== "" && part !== "..");
  return Array.from({ length: parts.length + 1 }, (_, cut) =>
    parts
      .slice(0, parts.length - cut)
      .map((part) => `/${part}`)
      .join(""),
  );
}

function readTextIfThere(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return undefined;
  }
}
