// `npm run bench`: Heddle beside its peers on the same workloads, in one run (docs/benchmarks.md).
//
//   npm run bench -- --whole                              all rows, some 20 minutes; writes the figures of the page
//   npm run bench -- --only lenet --peers heddle,torch-tuned --threads 1 --seconds 5

import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { handleSignals, run } from "./process.mjs";
import { SetupError, setup } from "./setup.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));

async function main(args) {
  const { native } = await setup();
  if (!native.ready) throw new SetupError(`the benchmarks need the native core: ${native.reason}`);
  const command = ["--import", "tsx", join(root, "bench", "main.ts"), ...args];
  const { status } = await run(process.execPath, command, { cwd: root });
  return status;
}

handleSignals();
main(process.argv.slice(2)).then(
  (status) => process.exit(status),
  (error) => {
    console.error(error instanceof SetupError ? `heddle bench: ${error.message}` : error);
    process.exit(2);
  },
);
