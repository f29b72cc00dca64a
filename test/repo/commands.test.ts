/** Every command that the pages and the first lines of examples show is there: its program, flags, scripts and files. None is run. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { heddle } from "../cli/heddle-process.ts";
import { commandsOf, commandsOfExample, examples, pages, root } from "./pages.ts";

const { scripts } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as { scripts: Record<string, string> };
const isThere = (file: string): boolean => existsSync(join(root, file));
/** A file's text without the comments that fill a line, or nothing. */
const source = (file: string): string =>
  file !== "" && isThere(file) ? readFileSync(join(root, file), "utf8").replaceAll(/^(?:\/\/| \*).*$/gm, "") : "";

/** Words before ` -- ` and behind it. */
function parted(words: readonly string[]): [own: readonly string[], passed: readonly string[]] {
  const at = words.indexOf("--");
  return at < 0 ? [words, []] : [words.slice(0, at), words.slice(at + 1)];
}

const flagsOf = (words: readonly string[]): string[] =>
  words.flatMap((word) => /^--?[a-z][\w-]*/.exec(word)?.[0] ?? []);

/** Flags that a text does not name, whole. */
const unnamed = (words: readonly string[], text: string): string[] =>
  flagsOf(words).filter((flag) => !new RegExp(`(?<![\\w-])${flag}(?![\\w-])`).test(text));

/** Files of this repository that are not there; `train.ts` and the like are the reader's own. Vitest takes the beginning of a name, too. */
const lacking = (words: readonly string[]): string[] =>
  words
    .filter((word) => /^(?:docs|examples|scripts|src|test)\//.test(word))
    .filter((word) => !isThere(word) && !isThere(`${word}.test.ts`));

const helps = new Map<string, string>();

/** What `heddle <command> --help` says. */
function helpOf(command: string): string {
  const known = helps.get(command);
  if (known !== undefined) return known;
  const { status, stdout } = heddle([...command.split(" "), "--help"]);
  const text = status === 0 ? stdout : "";
  helps.set(command, text);
  return text;
}

/** Programs that pages have the reader install. */
const ofReaders = ["autocannon", "deno"];

/** What is wrong with a command of each program. */
const programs: { readonly [program: string]: (words: readonly string[]) => string[] } = {
  heddle(words) {
    const [own, passed] = parted(words);
    const [first = "--help", file = ""] = own;
    if (first.startsWith("<")) return [];
    const command = ["launch", "checkpoint", "bench", "data", "keys"].includes(first) ? `${first} ${file}` : first;
    const help = helpOf(command);
    if (!help.startsWith(`Usage: heddle ${command === "--help" ? "" : command}`)) return [`no command ${command}`];
    return [...unnamed(own, help), ...lacking(own), ...(isThere(file) ? unnamed(passed, source(file)) : [])];
  },
  npm(words) {
    const [own, passed] = parted(words);
    const [command = "", name = ""] = own[0] === "run" ? own.slice(0, 2) : own[0] === "test" ? ["run", "test"] : own;
    if (["init", "install", "ls", "pkg"].includes(command)) return [];
    const script = scripts[name];
    if (command !== "run" || script === undefined) return [`no script ${name}`];
    return [...unnamed(passed, optionsOf(script)), ...lacking(passed)];
  },
  node: ([file = "", ...words]) => [...lacking([file]), ...unnamed(words, source(file)), ...lacking(words)],
  npx([program = "", ...words]) {
    if (program === "heddle") return check([program, ...words]);
    const there = isThere(`node_modules/.bin/${program}`) || ofReaders.includes(program);
    return there ? lacking(words) : [`no program ${program}`];
  },
  // Launchers of the reader's: what each of their processes runs.
  torchrun: launched,
  srun: launched,
  mpirun: launched,
  sbatch: () => [],
  kubectl: () => [],
  docker: () => [],
  git: () => [],
  cd: () => [],
};

function launched(words: readonly string[]): string[] {
  const at = words.indexOf("npx");
  return at < 0 ? ["launches no npx"] : check(words.slice(at));
}

/** Scripts that hand their arguments on, and where those are read. */
const readBy: { readonly [script: string]: string } = { "scripts/bench.mjs": "bench/options.ts" };

/** The text that names the flags of a script of package.json. */
function optionsOf(script: string): string {
  const [, file = ""] = /^(?:node|tsx) (?:.* )?(scripts\/\S+)/.exec(script) ?? [];
  return source(readBy[file] ?? file);
}

function check(words: readonly string[]): string[] {
  const [program = "", ...rest] = words;
  const found = programs[program];
  return found === undefined ? [`no program ${program}`] : found(rest);
}

/** What is wrong with a line of a shell. */
function mistakes(line: string): string[] {
  return line
    .replace(/\s+#.*$/, "")
    .split(" && ")
    .flatMap((command) => {
      // Python that has PyTorch, then its script.
      const [, inner, after] = /^\$\((.*)\)(.*)$/.exec(command) ?? [];
      if (inner !== undefined) return [...mistakes(inner), ...lacking((after as string).split(" "))];
      // What stands in quotes is one word, with flags of its own program.
      const words = command
        .replace(/'[^']*'/g, "quoted")
        .split(" ")
        .filter((word) => word !== "");
      const first = words.findIndex((word) => !/^[A-Z_]+=/.test(word));
      return check(words.slice(first));
    });
}

const commands = [...pages.flatMap(commandsOf), ...examples.flatMap(commandsOfExample)];

test("commands that are shown exist, with their flags, scripts and files", () => {
  expect(commands.length).toBeGreaterThan(100);
  const wrong = commands.flatMap(({ place, line }) => mistakes(line).map((mistake) => `${place}: ${line}: ${mistake}`));
  expect(wrong).toEqual([]);
});

test.each([
  ["heddle runn train.ts", "no command runn"],
  ["npx heddle run train.ts --wokers 2", "--wokers"],
  ["heddle run examples/none.ts", "examples/none.ts"],
  ["heddle run examples/vae.ts -- --smal", "--smal"],
  ["npm run tests", "no script tests"],
  ["npm run docs -- --chek", "--chek"],
  ["npm test -- --only vitest test/none", "test/none"],
  ["node scripts/pack.mjs --to packages", "--to"],
  ["heddel run train.ts", "no program heddel"],
  ["$(node scripts/none.mjs) test/fixtures/none.py", "scripts/none.mjs"],
])("a mistake is seen in: %s", (line, mistake) => {
  expect(mistakes(line)).toContain(mistake);
});

test("every example that is run says in its first lines what it takes and reaches", () => {
  const run = examples.filter((file) => commandsOfExample(file).length > 0);
  expect(examples.filter((file) => !run.includes(file))).toEqual([
    "examples/mail.ts",
    "examples/scenes.ts",
    "examples/spirals.ts",
  ]);
  const header = (file: string): string => readFileSync(join(root, file), "utf8").split("*/")[0] as string;
  expect(run.filter((file) => !/\d+ (?:s|minutes)\b/.test(header(file)))).toEqual([]);
});
