/**
 * Trains on a generated file that is many times larger than the memory of the process, which must stay below a bound:
 * `npm run test:large -- --gigabytes 20 --memory 1 --workers 1`. The file is made in .heddle/large and removed afterwards.
 */
import { spawnSync } from "node:child_process";
import { mkdirSync, rmSync, statfsSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

const root = fileURLToPath(new URL("..", import.meta.url));
const { values } = parseArgs({
  options: {
    gigabytes: { type: "string", default: "20" },
    memory: { type: "string", default: "1" },
    workers: { type: "string", default: "1" },
  },
});
const [gigabytes, memory] = [Number(values.gigabytes), Number(values.memory)];
const folder = join(root, ".heddle/large");
mkdirSync(folder, { recursive: true });
try {
  const { bavail, bsize } = statfsSync(folder);
  const bytes = gigabytes * 2 ** 30;
  if (bytes > bavail * bsize) throw new Error(`${folder} has room for ${Math.floor((bavail * bsize) / 2 ** 30)} GiB`);
  const script = join(root, "test/train/scripts/large.ts");
  const args = ["bin/heddle.js", "run", script, "--workers", values.workers, "--", folder, String(bytes)];
  const began = performance.now();
  const { status, stdout: output } = spawnSync(process.execPath, args, {
    cwd: root,
    env: { ...process.env, HEDDLE_MEMORY: `${memory}GB` },
    encoding: "utf8",
    stdio: ["inherit", "pipe", "inherit"],
  });
  const seconds = (performance.now() - began) / 1000;
  console.log(`${output.trim()}\n${gigabytes} GiB, with making the file: ${seconds.toFixed(0)} s`);
  const peak = Number(/"peakMiB":(\d+)/.exec(output)?.[1] ?? Number.POSITIVE_INFINITY);
  const isWithin = status === 0 && peak <= memory * 1024;
  console.log(isWithin ? `${peak} MiB of ${memory * 1024} MiB` : `FAILED: status ${status}, ${peak} MiB`);
  process.exitCode = isWithin ? 0 : 1;
} finally {
  rmSync(folder, { recursive: true, force: true });
}
