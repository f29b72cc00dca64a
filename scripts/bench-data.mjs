// npm run bench:data: records from files to batches beside PyTorch's DataLoader and tf.data (docs/data.md). Installs them on the first run.

import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { handleSignals } from "./process.mjs";
import { pythonEnvironment } from "./python.mjs";

const at = (path) => fileURLToPath(new URL(`../${path}`, import.meta.url));

handleSignals();
const { stdout, status } = spawnSync(process.execPath, [at("scripts/bench-peers.mjs")], {
  encoding: "utf8",
  stdio: ["ignore", "pipe", "inherit"],
});
if (status !== 0) process.exit(status ?? 1);
const python = await pythonEnvironment({
  name: "data",
  requirements: at("bench/peers/data-requirements.txt"),
  say: () => console.error("installing polars, pyarrow and TensorFlow (1.2 GB on disk) into .heddle/data"),
  // PyTorch is that of `npm run bench`.
  finish: [at("bench/peers/beside.py"), stdout.trim()],
});
const run = ["--import", "tsx", "--conditions", "heddle-source", at("bench/data.ts")];
const { status: ended } = spawnSync(process.execPath, [...run, python, ...process.argv.slice(2)], { stdio: "inherit" });
process.exit(ended ?? 1);
