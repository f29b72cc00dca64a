// `npm run docs:site`: makes a site of README, docs, examples and the API reference, with search, and checks its links.
//
//   npm run docs:site                      into .heddle/site/html
//   npm run docs:site -- --out <folder>    into another folder
//   npm run docs:site -- --serve           and then shows it at http://localhost:4173, until Ctrl-C
//
// VitePress goes into .heddle/site (scripts/site/package.json). Nothing of the site is fetched when it is read.

import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { handleSignals, run } from "./process.mjs";
import { SetupError, setup } from "./setup.mjs";
import { deadLinks } from "./site/check.mjs";
import { writePages } from "./site/pages.mjs";
import { installTool } from "./tool.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));

function parse(args) {
  try {
    return parseArgs({ args, options: { out: { type: "string" }, serve: { type: "boolean" } } }).values;
  } catch (error) {
    throw new SetupError(`${error.message}; use: npm run docs:site [-- --out <folder>] [-- --serve]`);
  }
}

/** Fails with the list of dead links. */
function expectNone(dead) {
  if (dead.length > 0) throw new SetupError(`dead links:\n  ${dead.join("\n  ")}`);
}

async function main(args) {
  const { out = join(".heddle", "site", "html"), serve = false } = parse(args);
  const html = resolve(root, out);
  await setup({ only: ["packages"] });
  const reference = await run(process.execPath, [join(root, "scripts", "docs.mjs")], { cwd: root });
  if (reference.status !== 0) return reference.status;
  const home = await installTool("site", "site", "VitePress");
  const pages = join(home, "pages");
  rmSync(pages, { recursive: true, force: true });
  expectNone(writePages(root, pages));
  mkdirSync(join(pages, ".vitepress"));
  const config = new URL("site/config.mjs", import.meta.url);
  // VitePress builds and serves what its settings name.
  const settings = `import config from ${JSON.stringify(config.href)};\nexport default { ...config, outDir: ${JSON.stringify(html)} };\n`;
  writeFileSync(join(pages, ".vitepress", "config.mjs"), settings);
  const vitepress = join(home, "node_modules", "vitepress", "bin", "vitepress.js");
  const built = await run(process.execPath, [vitepress, "build", pages], { cwd: root });
  if (built.status !== 0) return built.status;
  expectNone(deadLinks(html));
  console.log(`the site is in ${html}`);
  if (!serve) return 0;
  return (await run(process.execPath, [vitepress, "preview", pages], { cwd: root })).status;
}

handleSignals();
main(process.argv.slice(2)).then(
  (status) => process.exit(status),
  (error) => {
    console.error(error instanceof SetupError ? `heddle docs:site: ${error.message}` : error);
    process.exit(2);
  },
);
