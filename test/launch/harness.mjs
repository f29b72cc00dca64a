/**
 * @module A launcher in a process of its own, so that tests can signal and kill it.
 *
 *     node test/launch/harness.mjs '{"workers":2,"file":"…","args":[…]}'
 */

import { createServer } from "node:net";
import { report } from "../../dist/cli/run.js";
import { launchLocal } from "../../dist/node/launch.js";

/** A store that only holds a port: these workers have nothing to tell each other. */
const holdPort = ({ host, port }) =>
  new Promise((resolve, reject) => {
    const server = createServer();
    server.once("error", reject);
    server.listen(port, host, () => resolve({ port: server.address().port, close: () => void server.close() }));
  });

const options = JSON.parse(process.argv[2] ?? "{}");
const result = await launchLocal({ ...options, startStore: holdPort });
report(result, options.workers ?? 1);
process.exitCode = result.status;
