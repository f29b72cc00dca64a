/** @module Child programs in one file with the sources, which start in a tenth of the time that the sources take. */
import { mkdirSync, rmSync } from "node:fs";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import { buildSync } from "esbuild";
import manifest from "../../package.json" with { type: "json" };

const root = new URL("../../", import.meta.url);
/** Within the project: packages and the native core are found from there. */
const folder = fileURLToPath(new URL(".heddle/tests/", root));
/** "heddle" and its parts, which are no package here: the sources. */
const alias = Object.fromEntries(
  Object.entries(manifest.exports).flatMap(([path, to]) =>
    typeof to === "string" ? [] : [[`heddle${path.slice(1)}`, fileURLToPath(new URL(to["heddle-source"], root))]],
  ),
);
const files: string[] = [];
process.once("exit", () => {
  for (const file of files) rmSync(file, { force: true });
});

/** Bundles a program of TypeScript, such as `new URL("./child.ts", import.meta.url)`, for the tests of this process; its path. */
export function bundled(program: URL): string {
  const source = fileURLToPath(program);
  const file = join(folder, `${basename(source, ".ts")}-${process.pid}-${files.length}.mjs`);
  mkdirSync(folder, { recursive: true });
  buildSync({
    entryPoints: [source],
    outfile: file,
    bundle: true,
    platform: "node",
    format: "esm",
    target: "node20.17",
    packages: "external",
    alias,
    logLevel: "error",
  });
  files.push(file);
  return file;
}
