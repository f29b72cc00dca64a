/** @module Loaded into every worker before the user's script (`node --import`). */

import { register } from "node:module";
import { extname } from "node:path";
import { isMainThread } from "node:worker_threads";
import { connectToLauncher } from "../launcher-messages/launcher.ts";
import { loadNative } from "../runtime/native/binding.ts";
import { readEnvironment, setWorker } from "../util/settings.ts";
import { registerLoader, stripsTypes } from "./loader.ts";

// The loader of TypeScript registers itself in the first thread only, and others do not inherit it in every Node.
if (!stripsTypes() && !isMainThread) registerLoader();
if (!stripsTypes()) register(`./module-hooks${extname(new URL(import.meta.url).pathname)}`, import.meta.url);
// Threads of the script are loaded with this file, too; the channel belongs to the process.
// A process that the script forks inherits this file and the variables, but is no worker.
const { launcher, worker } = readEnvironment();
if (isMainThread && worker === undefined) {
  // Another parent than the launcher, or no channel to it: it has died while this process was starting.
  if (!connectToLauncher()) process.exit(1);
  setWorker();
  tieToLauncher(launcher);
}

/** A worker that spins in the user's code does not see its channel close: native code ends it, after time to tidy up. */
function tieToLauncher(launcher: number | undefined): void {
  const native = loadNative();
  if ("error" in native || launcher === undefined) return;
  try {
    native.endWithParent(launcher, 1);
  } catch {
    // Without a thread to spare the channel still tells a worker that does not spin.
  }
}
