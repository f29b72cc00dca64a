// `npm run docs`: writes the API reference, docs/api/*.md, from the docstrings of package.json's exports.
//
//   npm run docs                 into docs/api, which is not committed
//   npm run docs -- --check      into a separate folder under .heddle, to check that every reference resolves
//
// TypeDoc needs a TypeScript that has a JavaScript API; it goes into .heddle/docs (scripts/reference/package.json).

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { handleSignals, run } from "./process.mjs";
import { SetupError, setup } from "./setup.mjs";
import { installTool } from "./tool.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));
const tool = join(root, "scripts", "reference");

async function main(args) {
  const unknown = args.find((argument) => argument !== "--check");
  if (unknown !== undefined) throw new SetupError(`unknown argument '${unknown}'; use: npm run docs [-- --check]`);
  await setup({ only: ["packages"] });
  const home = await installTool("reference", "docs", "TypeDoc");
  const typedoc = join(home, "node_modules", "typedoc", "bin", "typedoc");
  const { exports } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
  const sources = Object.values(exports).flatMap((entry) => entry["heddle-source"] ?? []);
  const { status } = await run(
    process.execPath,
    [
      typedoc,
      ...sources.flatMap((source) => ["--entryPoints", source]),
      ...["--options", join(tool, "typedoc.json")],
      ...["--plugin", join(home, "node_modules", "typedoc-plugin-markdown", "dist", "index.js")],
      ...["--plugin", join(tool, "modules.mjs")],
      ...["--plugin", join(tool, "methods.mjs")],
      ...["--plugin", join(tool, "documented.mjs")],
      ...["--out", args.includes("--check") ? join(root, ".heddle", "docs-check") : join(root, "docs", "api")],
    ],
    { cwd: root },
  );
  return status;
}

handleSignals();
main(process.argv.slice(2)).then(
  (status) => process.exit(status),
  (error) => {
    console.error(error instanceof SetupError ? `heddle docs: ${error.message}` : error);
    process.exit(2);
  },
);
