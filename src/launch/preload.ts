/** @module Loaded into every worker before the user's script (`node --import`). */

import { register } from "node:module";
import { extname } from "node:path";
import { isMainThread } from "node:worker_threads";
import { loadNative } from "../executors/native/binding.ts";
import { connectToLauncher } from "../launcher-messages/launcher.ts";
import { readEnvironment, setVariables } from "../util/settings.ts";
import { hookModules, registerLoader, standInOf, stripsTypes } from "./loader.ts";

const standIn = standInOf(import.meta.url);
if (standIn !== undefined && isMainThread && process.argv[1] === standIn.compiled) {
  // Only the files of the program from here on have maps to keep.
  process.setSourceMapsEnabled(true);
  process.argv[1] = standIn.file;
} else {
  await registerHooks(standIn !== undefined);
}
// Threads of the script load this file, too, but the channel belongs to the process.
// A process that the script forks inherits this file and the variables, but is not a worker.
const { launcher, worker } = readEnvironment();
if (isMainThread && worker === undefined) {
  // The parent is not the launcher, or there is no channel: the launcher died while this process was starting.
  if (!connectToLauncher()) process.exit(1);
  // The processes that this one starts inherit its variables, but are not workers of its launcher.
  setVariables({ HEDDLE_WORKER: String(process.pid) });
  tieToLauncher(launcher);
}

/** A worker that is busy in the user's code does not see its channel close: native code ends it, after time to clean up. */
function tieToLauncher(launcher: number | undefined): void {
  const native = loadNative();
  if ("error" in native || launcher === undefined) return;
  try {
    native.endWithParent(launcher, 1);
  } catch {
    // If no thread can be started, the channel still ends a worker that is not busy.
  }
}

/** Registers the hooks of a process that Node's modules and the loader run; `all`: also those that the arguments of other processes name. */
async function registerHooks(all: boolean): Promise<void> {
  // A thread or a forked process of a compiled program gets its arguments, but another file, which the user wrote.
  for (const url of all ? hookModules(true) : []) await import(url);
  // The sources' TypeScript loader registers itself in the first thread only, and in some Nodes other threads do not inherit it.
  if (!stripsTypes() && !isMainThread) registerLoader();
  if (!stripsTypes()) register(`./module-hooks${extname(new URL(import.meta.url).pathname)}`, import.meta.url);
}
