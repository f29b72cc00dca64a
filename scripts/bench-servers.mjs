// npm run bench:servers: parameter servers beside PyTorch's RPC and Ray's actors (docs/parameter-server.md). Installs both on the first run.

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
const ray = await pythonEnvironment({
  name: "servers",
  requirements: at("bench/peers/servers-requirements.txt"),
  say: () => console.error("installing Ray (250 MB on disk) into .heddle/servers"),
});
const run = ["--import", "tsx", "--conditions", "heddle-source", at("bench/servers.ts")];
const { status: ended } = spawnSync(process.execPath, [...run, stdout.trim(), ray, ...process.argv.slice(2)], {
  stdio: "inherit",
});
process.exit(ended ?? 1);
