// What benchmarks with Python packages of their own share: the peers of `npm run bench`, an environment beside them, and the run.

import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { handleSignals } from "./process.mjs";
import { pythonEnvironment } from "./python.mjs";

export const at = (path) => fileURLToPath(new URL(`../${path}`, import.meta.url));

const node = (args, options) => spawnSync(process.execPath, args, { encoding: "utf8", stdio: "inherit", ...options });

/**
 * Runs a benchmark of `bench/`. `environment` gives, of the Python of `npm run bench`, what `pythonEnvironment` makes beside it; `pythons` are those that the
 * benchmark takes first, of both.
 */
export async function runBeside(bench, environment, pythons) {
  handleSignals();
  const { stdout, status } = node([at("scripts/bench-peers.mjs")], { stdio: ["ignore", "pipe", "inherit"] });
  if (status !== 0) process.exit(status ?? 1);
  const peers = stdout.trim();
  const own = await pythonEnvironment(environment(peers));
  const run = ["--import", "tsx", "--conditions", "heddle-source", at(bench), ...pythons(peers, own)];
  process.exit(node([...run, ...process.argv.slice(2)]).status ?? 1);
}
