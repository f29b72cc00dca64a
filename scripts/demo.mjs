// `npm run demo`: sets up what is missing, then trains a convnet on MNIST with two worker processes.

import { existsSync, readFileSync, statfsSync } from "node:fs";
import { freemem } from "node:os";
import { fileURLToPath } from "node:url";
import { handleSignals } from "./process.mjs";
import { SetupError, setup } from "./setup.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));
const megabyte = 1e6;
/** The demo's needs: disk for the build of the native core, memory for two workers with the images. */
const needed = { disk: 1500 * megabyte, diskWhenBuilt: 100 * megabyte, memory: 1200 * megabyte };

async function main(extra) {
  checkMachine();
  const { native } = await setup();
  const command = ["run", "examples/mnist.ts"];
  if (native.ready) command.push("--workers", "2");
  else command.push("--workers", "1", "--executor", "reference");
  if (!native.ready) {
    console.log(`heddle demo: ${native.reason}`);
    console.log("heddle demo: until then, a smaller model on the slow reference executor:\n");
  }
  const { main: heddle } = await import(new URL("../dist/node/cli.js", import.meta.url).href);
  return () => heddle([...command, ...extra]);
}

/** Reports missing disk or memory before the demo runs for minutes. */
function checkMachine() {
  const disk = statfsSync(root);
  const free = disk.bavail * disk.bsize;
  const requiredDisk = existsSync(`${root}/dist/.stamp`) ? needed.diskWhenBuilt : needed.disk;
  if (free < requiredDisk) {
    throw new SetupError(`${amount(requiredDisk)} of free disk are needed in ${root}; ${amount(free)} are free`);
  }
  const memory = availableMemory();
  if (memory < needed.memory) {
    throw new SetupError(
      `${amount(needed.memory)} of free memory are needed for two workers; there are ${amount(memory)}. ` +
        "Close other programs, or run one worker: npx heddle run examples/mnist.ts --workers 1",
    );
  }
}

/** Memory available without swapping: Linux's estimate, within the limit of the container. */
function availableMemory() {
  // On macOS free memory leaves out memory that can be reclaimed at once, so it is no reason to refuse.
  if (process.platform === "darwin") return Infinity;
  const estimate = /^MemAvailable:\s+(\d+) kB/m.exec(readIfThere("/proc/meminfo"))?.[1];
  const limit = Number.parseInt(readIfThere("/sys/fs/cgroup/memory.max"), 10);
  return Math.min(estimate === undefined ? freemem() : Number(estimate) * 1024, Number.isNaN(limit) ? Infinity : limit);
}

function readIfThere(file) {
  return existsSync(file) ? readFileSync(file, "utf8") : "";
}

function amount(bytes) {
  return bytes >= 1e9 ? `${(bytes / 1e9).toFixed(1)} GB` : `${Math.round(bytes / 1e6)} MB`;
}

const release = handleSignals();
main(process.argv.slice(2))
  .then((start) => {
    // From here on the launcher handles Ctrl-C: it stops the workers and sets the status.
    release();
    return start();
  })
  .then(
    (status) => process.exit(status),
    (error) => {
      console.error(error instanceof SetupError ? `heddle demo: ${error.message}` : error);
      process.exit(1);
    },
  );
