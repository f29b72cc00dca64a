/** @module The pages of this repository (README, docs, …): their fenced blocks, and the commands that they show. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

/** The folder of the repository. */
export const root = fileURLToPath(new URL("../..", import.meta.url));

const markdown = (folder: string): string[] =>
  readdirSync(join(root, folder), { recursive: true, encoding: "utf8" })
    // docs/api is made by `npm run docs`.
    .filter((name) => name.endsWith(".md") && !name.startsWith("api"))
    .map((name) => `${folder}/${name}`)
    .sort();

/** Every page, by its path from the root. */
export const pages = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", ...markdown("docs"), ...markdown("examples")];

const read = (page: string): string => readFileSync(join(root, page), "utf8");

/** A fenced block. */
export interface Block {
  readonly page: string;
  /** `docs/training.md:3`, where it begins. */
  readonly place: string;
  /** What stands behind the fence: `ts`, `text`, `text printed`. */
  readonly kind: string;
  readonly text: string;
}

const fences = /^( *)```(.*)\n([\s\S]*?)^ *```$/gm;

/** The fenced blocks of a page, in their order. */
export function blocksOf(page: string): Block[] {
  const text = read(page);
  return [...text.matchAll(fences)].map((match) => {
    const line = text.slice(0, match.index).split("\n").length;
    return { page, place: `${page}:${line}`, kind: match[2] as string, text: match[3] as string };
  });
}

/** A line with a command, and where it stands. */
export interface Command {
  readonly place: string;
  readonly line: string;
}

const named = /^(?:npx |npm |heddle |node )/;

/** The commands of a page: its indented lines, and what stands in backticks and begins with the name of a program. */
export function commandsOf(page: string): Command[] {
  // Lines keep their numbers.
  const text = read(page).replaceAll(fences, (block) => block.replaceAll(/[^\n]/g, ""));
  return text.split("\n").flatMap((line, index) => {
    const place = `${page}:${index + 1}`;
    // A list goes on with lines that are indented by less.
    if (/^ {4}\S/.test(line)) return [{ place, line: line.trim() }];
    const spans = [...line.matchAll(/`([^`]+)`/g)].map((match) => match[1] as string);
    return spans.filter((span) => named.test(span)).map((span) => ({ place, line: span }));
  });
}

/** The commands that the first lines of an example show. */
export function commandsOfExample(file: string): Command[] {
  const [header = ""] = read(file).split("*/");
  return header.split("\n").flatMap((line, index) => {
    const [, command] = /^ \* {5}(\S.*)$/.exec(line) ?? [];
    return command === undefined ? [] : [{ place: `${file}:${index + 1}`, line: command }];
  });
}

/** The examples, by their paths from the root. */
export const examples = readdirSync(join(root, "examples"), { recursive: true, encoding: "utf8" })
  .filter((name) => name.endsWith(".ts"))
  .map((name) => `examples/${name}`)
  .sort();
