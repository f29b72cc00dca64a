#!/usr/bin/env node
import { existsSync } from "node:fs";

const main = new URL("../dist/cli/main.js", import.meta.url);

if (existsSync(main)) {
  const { main: run } = await import(main.href);
  process.exitCode = await run(process.argv.slice(2));
} else {
  console.error("heddle: this copy is not built yet; run: npm run setup");
  process.exitCode = 1;
}
