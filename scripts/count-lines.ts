/**
 * @module Counts lines of code (neither blank nor comment) by part, and holds them to the figures in scripts/lines.json.
 *
 *     tsx scripts/count-lines.ts [--lower]
 *
 * Prints a line for each part and its figure, and ends with status 1 where a part is above it. `--lower` writes the figures of
 * parts that have become smaller; a figure is raised only by hand, with a reason in the commit.
 */
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join, sep } from "node:path";
import { fileURLToPath } from "node:url";
import { blankComments } from "./check-layers.ts";

/** Parts by name: folders, the most lines of code in them, and, for the core, what no commit may raise that figure above. */
interface Budget {
  readonly [part: string]: { readonly folders: readonly string[]; most: number; readonly limit?: number };
}

/** Lines of code of all TypeScript and Rust files below a folder, without Rust's unit tests, and without folders of other parts. */
export function linesBelow(folder: string, others: readonly string[] = []): number {
  return readdirSync(folder, { recursive: true, encoding: "utf8" })
    .map((name) => name.split(sep).join("/"))
    .filter((name) => /\.(ts|rs)$/.test(name) && !/(^|\/)(tests|target|npm)\//.test(name))
    .filter((name) => !others.some((other) => join(folder, name).startsWith(join(other, sep))))
    .reduce((sum, name) => sum + linesOf(readFileSync(join(folder, name), "utf8"), name.endsWith(".rs")), 0);
}

/** Lines that are neither blank nor comment. */
export function linesOf(text: string, rust: boolean): number {
  // Generated files are left out: their sources are counted.
  if (/^(\/\/!|\/\*\* @module) [^\n]*: made of src\//.test(text)) return 0;
  // Unit tests stand at the end of a file. In Rust an apostrophe is a lifetime more often than a character.
  const [source = ""] = rust ? text.split(/^#\[cfg\(test\)\]\nmod \w+ \{$/m) : [text];
  const code = blankComments(rust ? source.replaceAll("'", " ").replaceAll("`", " ") : source);
  return code.split("\n").filter((line) => line.trim() !== "").length;
}

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const file = join(root, "scripts", "lines.json");

function main(lower: boolean): number {
  const budget = JSON.parse(readFileSync(file, "utf8")) as Budget;
  const folders = Object.values(budget).flatMap((part) => part.folders);
  let over = 0;
  for (const [part, figure] of Object.entries(budget)) {
    const inside = (folder: string) => folders.filter((other) => other.startsWith(`${folder}/`));
    const below = (folder: string) =>
      linesBelow(
        join(root, folder),
        inside(folder).map((other) => join(root, other)),
      );
    const lines = figure.folders.reduce((sum, folder) => sum + below(folder), 0);
    const { limit = Number.POSITIVE_INFINITY } = figure;
    const verdict =
      figure.most > limit
        ? `  the figure is above its limit, ${limit}`
        : lines > figure.most
          ? "  ABOVE: shorten it, or raise the figure with a reason"
          : "";
    console.log(`${part.padEnd(12)}${String(lines).padStart(7)} lines of code, at most ${figure.most}${verdict}`);
    if (verdict !== "") over++;
    else if (lower) figure.most = lines;
  }
  if (lower) writeFileSync(file, `${JSON.stringify(budget, null, 2)}\n`);
  return over > 0 ? 1 : 0;
}

// A reader that goes away, as `head` does, is no error.
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  if (error.code !== "EPIPE") throw error;
});
if (process.argv[1] === fileURLToPath(import.meta.url)) process.exitCode = main(process.argv.includes("--lower"));
