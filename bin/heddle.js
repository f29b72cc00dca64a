#!/usr/bin/env node
import { existsSync } from "node:fs";

// The copy of the library that users' files import here: the bundle for Node, or its modules one by one.
const bundled = import.meta.resolve("heddle").includes("/dist/node/");
const main = new URL(bundled ? "../dist/node/cli.js" : "../dist/cli/main.js", import.meta.url);

if (existsSync(main)) {
  const { main: run } = await import(main.href);
  process.exitCode = await run(process.argv.slice(2));
} else {
  console.error("heddle: this copy is not built yet; run: npm run setup");
  process.exitCode = 1;
}
