/** @module The `heddle` command from its sources, as bin/heddle.js runs it from the build. */

import { main } from "../../src/cli/main.ts";

process.exitCode = await main(process.argv.slice(2));
