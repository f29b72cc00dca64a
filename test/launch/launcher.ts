/** @module Runs the harness and gathers what a test looks at. */

import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import type { LaunchOptions } from "../../src/launch/index.ts";

const here = (name: string) => fileURLToPath(new URL(name, import.meta.url));

/** The script of `print:…`, `exit:…` and so on. */
export const workerScript: string = here("./scripts/worker.mjs");
export const typedScript: string = here("./scripts/typed.ts");
export const temporaryScript: string = here("./scripts/temporary.ts");

/** How the launcher ended. */
export interface Outcome {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
  readonly milliseconds: number;
}

/** A launcher that runs. */
export interface Launcher {
  readonly child: ChildProcess;
  readonly ended: Promise<Outcome>;
  /** A folder for the test's files, which is also the launcher's folder for temporary files. */
  readonly folder: string;
  /** Resolves when every rank has written its `pid:` file; gives the process ids by rank. */
  pids(workers: number): Promise<number[]>;
  /** What is left in the folder, without the pid files. */
  leftovers(): string[];
  dispose(): void;
}

/** Starts the launcher. `{folder}` in an argument becomes the test's folder. */
export function startLauncher(options: Omit<LaunchOptions, "file"> & { file?: string }): Launcher {
  const folder = mkdtempSync(join(tmpdir(), "heddle-test-"));
  const args = (options.args ?? []).map((text) => text.replace("{folder}", folder));
  const json = JSON.stringify({ file: workerScript, ...options, args });
  const started = performance.now();
  const child = spawn(process.execPath, [here("./harness.mjs"), json], {
    env: { ...process.env, TMPDIR: folder, NO_COLOR: "1" },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const output = { stdout: "", stderr: "" };
  for (const name of ["stdout", "stderr"] as const) {
    child[name].setEncoding("utf8").on("data", (text: string) => {
      output[name] += text;
    });
  }
  const ended = new Promise<Outcome>((resolve) => {
    child.once("close", (code, signal) =>
      resolve({ code, signal, ...output, milliseconds: performance.now() - started }),
    );
  });
  return {
    child,
    ended,
    folder,
    pids: (workers) => waitForPids(folder, workers),
    leftovers: () => readdirSync(folder).filter((name) => !name.startsWith("pid-") && !name.startsWith("tsx-")),
    dispose: () => {
      child.kill("SIGKILL");
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

async function waitForPids(folder: string, workers: number): Promise<number[]> {
  const files = Array.from({ length: workers }, (_, rank) => join(folder, `pid-${rank}`));
  for (let tries = 0; tries < 500; tries++) {
    const texts = files.map((file) => (existsSync(file) ? readFileSync(file, "utf8") : ""));
    if (texts.every((text) => text !== "")) return texts.map(Number);
    await sleep(20);
  }
  throw new Error("the workers did not start within 10 s");
}

/** Whether a process still runs. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

/** Waits until none of the processes runs; false after the deadline. */
export async function allGone(pids: readonly number[], milliseconds: number): Promise<boolean> {
  const deadline = performance.now() + milliseconds;
  while (performance.now() < deadline) {
    if (!pids.some(isAlive)) return true;
    await sleep(20);
  }
  return !pids.some(isAlive);
}
