/**
 * @module A launcher in a process of its own, so that tests can signal and kill it.
 *
 *     node --import tsx test/launch/harness.ts '{"workers":2,"file":"…","args":[…]}'
 */

import { createServer } from "node:net";
import { report } from "../../src/cli/run.ts";
import type { LaunchOptions } from "../../src/launch/index.ts";
import { launchLocal } from "../../src/launch/index.ts";
import type { StartStore } from "../../src/launch/store.ts";

/** A store that only holds a port: these workers have nothing to tell each other. */
const holdPort: StartStore = ({ host, port }) =>
  new Promise((resolve, reject) => {
    const server = createServer();
    server.once("error", reject);
    server.listen(port, host, () => {
      const address = server.address();
      const bound = typeof address === "object" && address !== null ? address.port : 0;
      resolve({ port: bound, close: () => void server.close() });
    });
  });

const options = JSON.parse(process.argv[2] ?? "{}") as LaunchOptions;
const result = await launchLocal({ ...options, startStore: holdPort });
report(result, options.workers ?? 1);
process.exitCode = result.status;
