/** @module The machine that a result was measured on. */
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { cpus, loadavg, release, totalmem } from "node:os";
import { allowedCores, root } from "./commands.ts";

export interface MachineInfo {
  readonly cpu: string;
  readonly cores: number;
  readonly memoryBytes: number;
  readonly system: string;
  readonly node: string;
  readonly heddle: string;
  /** The commit of the repository; undefined outside a repository. */
  readonly commit: string | undefined;
}

export function machineInfo(): MachineInfo {
  const { version } = JSON.parse(readFileSync(`${root}/package.json`, "utf8")) as { version: string };
  const processors = cpus();
  return {
    cpu: processors[0]?.model.trim() ?? "unknown",
    cores: allowedCores().length || processors.length,
    memoryBytes: totalmem(),
    system: `${process.platform} ${release()} ${process.arch}`,
    node: process.version,
    heddle: version,
    commit: commit(),
  };
}

function commit(): string | undefined {
  try {
    const options = { cwd: root, encoding: "utf8", stdio: "pipe" } as const;
    const changed = execFileSync("git", ["status", "--porcelain", "--untracked-files=no"], options).trim() !== "";
    return execFileSync("git", ["rev-parse", "--short", "HEAD"], options).trim() + (changed ? " with changes" : "");
  } catch {
    return undefined;
  }
}

/** Processes that ran or waited for a core, averaged over the last minute. */
export const load = (): number => loadavg()[0] as number;
