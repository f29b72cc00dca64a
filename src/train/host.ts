/** @module The machine of a training in Node: its files, its process and its terminal. Bundlers replace this file by `host-browser.ts`. */
import { createHash } from "node:crypto";
import { appendFileSync } from "node:fs";
import { constants } from "node:os";
import { join } from "node:path";
import { openCheckpoint, stepProblem } from "../checkpoints/open.ts";
import { isDamage } from "../checkpoints/series.ts";
import { elasticMember } from "../elastic/member.ts";
import { profiledSteps, sharedProfiler } from "../executors/index.ts";
import { readPlan } from "../io/plan-file.ts";
import { readSafetensors, savedBy } from "../io/safetensors.ts";
import { modelMetadata } from "../io/saved-model.ts";
import { reportToLauncher } from "../launcher-messages/launcher.ts";
import { readEnvironment } from "../util/settings.ts";
import { candidates, takeFolder } from "./checkpoint-folder.ts";
import type { EndSignal, Host, HostFiles, HostProcess } from "./host-interface.ts";
import { connectServers, isOnServers, workerRuntime } from "./on-servers.ts";
import { planAndEnd } from "./plan-only.ts";
import { readUpdateLog, replayed } from "./replay.ts";
import { makeSaver } from "./saver.ts";
import { joinPartners } from "./second-world.ts";
import { makeReporter } from "./terminal.ts";

export { csvLogger } from "./callbacks/csv-logger.ts";
export { modelCheckpoint } from "./callbacks/model-checkpoint.ts";
export { tensorBoard } from "./callbacks/tensorboard.ts";

const files: HostFiles = {
  takeFolder,
  candidates,
  openCheckpoint,
  stepProblem,
  isDamage,
  makeSaver,
  readPlan,
  writeTensors: (what, path, tensors, metadata) => savedBy(what, path, tensors, { metadata }),
  readTensors: (path) => readSafetensors(path),
  modelMetadata,
};

const signals: readonly EndSignal[] = ["SIGINT", "SIGTERM"];

/** The same batches; under `heddle profile` the time until each one is noted. */
async function* profiledInput<Value>(batches: AsyncGenerator<Value, void>): AsyncGenerator<Value, void> {
  let asked = performance.now();
  for await (const batch of batches) {
    sharedProfiler()?.waited(asked, performance.now());
    yield batch;
    asked = performance.now();
  }
}

const ownProcess: HostProcess = {
  onSignal: (callback) => {
    // Node calls listeners with the name of the signal.
    const listener = (signal: NodeJS.Signals): void => callback(signal as EndSignal);
    for (const signal of signals) process.on(signal, listener);
    return () => {
      for (const signal of signals) process.off(signal, listener);
    };
  },
  onNotice: (callback) => {
    // Windows has no such signal.
    if (process.platform === "win32") return () => {};
    process.on("SIGUSR2", callback);
    return () => void process.off("SIGUSR2", callback);
  },
  endBy: (signal) => process.exit(128 + constants.signals[signal]),
  end: () => process.exit(0),
  report: reportToLauncher,
  keep: (file, text) => {
    const { runDirectory } = readEnvironment();
    if (runDirectory === undefined) return;
    try {
      appendFileSync(join(runDirectory, file), text());
    } catch {
      // A disk that is full or must not be written ends no training.
    }
  },
  isOnServers,
  workerRuntime,
  connectServers,
  replayed: (whole, runtime, first) =>
    replayed(readUpdateLog(whole.settings.server?.replay as string), whole, runtime, first),
  member: elasticMember,
  joinPartners,
  profiledSteps,
  profiledInput: (batches) => (sharedProfiler() === undefined ? batches : profiledInput(batches)),
  planAndEnd,
};

export const host: Host = {
  sha256: (bytes) => createHash("sha256").update(bytes).digest("hex"),
  makeReporter,
  files,
  process: ownProcess,
};
