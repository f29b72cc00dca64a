// `npm run docs`: writes the API reference, docs/api/*.md, from the docstrings of what package.json exports.
//
//   npm run docs                 into docs/api, which is not committed
//   npm run docs -- --check      into a folder of its own under .heddle, to see that every reference resolves
//
// TypeDoc needs a TypeScript that has a JavaScript API; it goes into .heddle/docs (scripts/reference/package.json).

import { copyFileSync, existsSync, mkdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { handleSignals, run } from "./process.mjs";
import { SetupError, setup } from "./setup.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));
const tool = join(root, "scripts", "reference");
const home = join(root, ".heddle", "docs");
const lock = "package-lock.json";

/** Installs the tool, unless the very packages of its lockfile are there. */
async function install() {
  const typedoc = join(home, "node_modules", "typedoc", "bin", "typedoc");
  const stamp = join(home, lock);
  const wanted = readFileSync(join(tool, lock), "utf8");
  if (existsSync(typedoc) && existsSync(stamp) && readFileSync(stamp, "utf8") === wanted) return typedoc;
  console.log("installing TypeDoc into .heddle/docs");
  rmSync(home, { recursive: true, force: true });
  mkdirSync(home, { recursive: true });
  for (const name of ["package.json", lock]) copyFileSync(join(tool, name), join(home, name));
  const npm = process.platform === "win32" ? "npm.cmd" : "npm";
  const { status, output } = await run(npm, ["ci", "--no-fund", "--no-audit", "--loglevel=error"], {
    cwd: home,
    stdio: "capture",
  });
  if (status !== 0) {
    rmSync(home, { recursive: true, force: true });
    throw new SetupError(`npm ci failed (status ${status})\n${output}`);
  }
  return typedoc;
}

async function main(args) {
  const unknown = args.find((argument) => argument !== "--check");
  if (unknown !== undefined) throw new SetupError(`unknown argument '${unknown}'; use: npm run docs [-- --check]`);
  await setup({ only: ["packages"] });
  const typedoc = await install();
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
