/**
 * @module Checks that imports go one way only, as docs/architecture.md says, that no modules of a Rust crate use each other in a
 * circle, and that package.json exports what exists.
 *
 *     tsx scripts/check-layers.ts [folder]
 *
 * Prints one line per violation and ends with status 1 if there is any.
 */

import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, posix, relative, resolve, sep } from "node:path";
import { fileURLToPath } from "node:url";
import { rustImports } from "./rust-imports.ts";

/**
 * From left to right; a folder may import folders of earlier groups. Folders of one group do not import each other. A file that stands
 * here by its name is no part of its folder.
 */
export const layers: readonly (readonly string[])[] = [
  ["util"],
  ["ir"],
  ["kernels", "rewrite"],
  ["copies"],
  ["ops"],
  ["autodiff", "passes"],
  ["cost", "prefetch"],
  ["schedules"],
  ["plan"],
  ["pipelines"],
  ["program", "lower", "hlo"],
  ["launcher-messages"],
  ["runtime"],
  ["elastic", "quorum"],
  ["hosts", "cache", "in-network"],
  ["executors"],
  ["compile"],
  ["chains"],
  ["tensor", "report"],
  ["functions"],
  [
    "nn",
    "optim",
    "losses",
    "metrics",
    "data",
    "testing",
    "inference",
    "comm",
    "compression",
    "placed",
    "matrix",
    "augment",
  ],
  ["consistency"],
  ["script", "frames"],
  ["filters"],
  ["io"],
  ["checkpoints", "ml"],
  ["parameter-server"],
  ["train", "extend"],
  ["adapters/autograph", "adapters/caffe", "adapters/onnx"],
  ["io/index.ts"],
  ["adapters/keras"],
  ["launch"],
  ["cli"],
];

/** Imports inside one group that are meant: lowering turns a program into kernel calls, StableHLO has its mesh axes, matrices in blocks exchange them. */
const allowedInGroup: ReadonlySet<string> = new Set(["lower → program", "hlo → program", "matrix → comm"]);

/** What needs Node; all other modules run in a browser. Folders end in a slash. */
const needNode: readonly string[] = [
  "cache/",
  "launcher-messages/",
  "hosts/",
  "in-network/",
  "quorum/",
  "elastic/member.ts",
  "elastic/waits.ts",
  "executors/native/",
  "executors/remote/",
  "executors/through-switch/",
  "executors/registered.ts",
  "runtime/packages.ts",
  "data/file-ranges.ts",
  "data/idx-file.ts",
  "data/mnist.ts",
  "data/records/store.ts",
  "data/records/workers.ts",
  "data/sources/",
  "data/tokens/",
  "io/",
  "ml/save.ts",
  "ml/index.ts",
  "script/",
  "checkpoints/",
  "extend/index.ts",
  "adapters/caffe/",
  "adapters/onnx/",
  "adapters/keras/",
  "train/host.ts",
  "train/index.ts",
  "train/checkpoint-folder.ts",
  "train/saver.ts",
  "train/second-world.ts",
  "train/worker-copy.ts",
  "train/worker-steps.ts",
  "train/on-servers.ts",
  "train/replay.ts",
  "train/server-plan.ts",
  "train/server-tables.ts",
  "train/plan-only.ts",
  "train/terminal.ts",
  "train/callbacks/append.ts",
  "train/callbacks/csv-logger.ts",
  "train/callbacks/event-file.ts",
  "train/callbacks/model-checkpoint.ts",
  "train/callbacks/tensorboard.ts",
  "filters/",
  "parameter-server/",
  "launch/",
  "cli/",
  // Modules that list all ops, layers and rules.
  "index.ts",
  "data/index.ts",
  "executors/index.ts",
];

/** Files of folders that need Node that run in a browser, too. */
const runAnywhere: readonly string[] = [
  "executors/native/allocation.ts",
  "hosts/slurm-nodes.ts",
  "hosts/launchers.ts",
  "io/host-tensors.ts",
  "checkpoints/memory.ts",
  "checkpoints/pieces.ts",
];

/** Adapters import Heddle as a user's adapter does: only modules that package.json exports. */
const isAdapter = (part: string): boolean => part.startsWith("adapters/");
const isExported = (file: string): boolean => /^(adapters\/)?([^/]+\/)?(index|browser)\.ts$/.test(file);

/** Folders whose export has another name: for users the tensor and its functions are one module, and so are runtimes and executors. */
const exportedAs: Readonly<Record<string, string>> = { functions: "tensor", executors: "runtime" };

/** Folders whose modules may be loaded on demand: each command loads its own modules, and a launcher its compiler only for new files. */
const mayImportLate: ReadonlySet<string> = new Set(["cli", "launch"]);

/** Imports of what is computed: the package by its name, as a user's file loads it, whose layers are all of them; and modules of hooks by their URLs. */
const computedImports: Readonly<Record<string, string>> = {
  "launch/library.ts": ".import.meta.resolve(",
  "launch/preload.ts": ".url",
};

/** One `import` or `export … from` of a file. */
interface Import {
  readonly specifier: string;
  readonly line: number;
  readonly late: boolean;
  readonly typeOnly: boolean;
}

/** Every violation under `root` (a folder with `src/` and `package.json`), as `file:line: message`, in file order. */
export function checkLayers(root: string): string[] {
  const source = join(root, "src");
  const files = readdirSync(source, { recursive: true, encoding: "utf8" })
    .map((name) => name.split(sep).join("/"))
    .filter((name) => name.endsWith(".ts") && !name.endsWith(".test.ts"))
    .sort();
  const imports = new Map(files.map((file) => [file, importsOf(readFileSync(join(source, file), "utf8"))]));
  const replaced = replacedInBrowsers(root);
  const problems: string[] = [];
  for (const [file, importsOfFile] of imports) {
    for (const imported of importsOfFile) {
      const message = problemOf(file, imported, imports, replaced);
      if (message !== undefined) problems.push(`src/${file}:${imported.line}: ${message}`);
    }
  }
  return [
    ...problems,
    ...unknownFolders(files),
    ...findCycles("src", localTargets(imports)),
    ...crates.flatMap((crate) => crateCycles(root, crate)),
    ...checkExports(root, files),
  ];
}

/** The imports of a module. Comments are blanked first; the code base has no import in a string. */
export function importsOf(text: string): Import[] {
  const code = blankComments(text);
  const imports: Import[] = [];
  const add = (match: RegExpExecArray, specifier: string, late: boolean, typeOnly: boolean) => {
    imports.push({ specifier, line: code.slice(0, match.index).split("\n").length, late, typeOnly });
  };
  const fixed = /^[ \t]*(?:import|export)\b\s*(type\s+)?(?:[\w*${}\s,]+?\bfrom\s*)?["']([^"'\n]+)["']/gm;
  for (const match of code.matchAll(fixed)) add(match, match[2] ?? "", false, match[1] !== undefined);
  for (const match of code.matchAll(/\bimport\s*\(\s*(["']?)([^"')]*)/g)) {
    // `typeof import("x")` and `import("x").Name` in a type are erased; a type position follows one of these.
    const textBefore = code.slice(0, match.index).trimEnd();
    const inType = /(?:typeof|[:<|&])$/.test(textBefore);
    // A computed name may be any file.
    add(match, match[1] === "" ? `.${match[2]}` : (match[2] ?? ""), !inType, inType);
  }
  return imports.sort((a, b) => a.line - b.line);
}

/** Replaces comments with blanks of the same length, so that lines keep their numbers. Strings are left as they are. */
export function blankComments(text: string): string {
  const token = /"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|`(?:\\.|[^`\\])*`|\/\/[^\n]*|\/\*[\s\S]*?\*\//g;
  return text.replace(token, (part) => (part.startsWith("/") ? part.replace(/[^\n]/g, " ") : part));
}

/** Modules that bundlers for browsers replace, as the field `browser` of package.json says. */
function replacedInBrowsers(root: string): ReadonlySet<string> {
  const manifest = join(root, "package.json");
  if (!existsSync(manifest)) return new Set();
  const { browser = {} } = JSON.parse(readFileSync(manifest, "utf8")) as { browser?: Record<string, string> };
  return new Set(Object.keys(browser).map((path) => path.replace("./src/", "")));
}

function problemOf(
  file: string,
  imported: Import,
  files: ReadonlyMap<string, unknown>,
  replaced: ReadonlySet<string>,
): string | undefined {
  const from = folderOf(file);
  const { specifier } = imported;
  if (computedImports[file] === specifier) return undefined;
  // Loading a module on demand does not break a cycle of folders.
  if (imported.late && specifier.startsWith(".") && !mayImportLate.has(from)) {
    return `import("${specifier}") inside the code; import at the top of the file, or move the code to the right layer`;
  }
  if (specifier.startsWith("node:")) return inBrowser(file) ? `may not import ${specifier}: ${why}` : undefined;
  if (specifier.startsWith("heddle")) return `import "${specifier}" by its relative path`;
  if (!specifier.startsWith(".")) return undefined;
  const target = posix.normalize(posix.join(posix.dirname(file), specifier));
  if (target.startsWith("../")) return target.endsWith(".json") ? undefined : `${specifier} lies outside src/`;
  if (!files.has(target) && !target.endsWith(".json")) return `${specifier} does not exist (imports end in .ts)`;
  if (inBrowser(file) && !inBrowser(target) && !imported.typeOnly && !replaced.has(target))
    return `may not import ${specifier}: ${why}`;
  const to = folderOf(target);
  if (isAdapter(from) && from !== to && !isExported(target))
    return `an adapter may not import ${specifier}: it imports only modules that package.json exports`;
  return layerProblem(from, to);
}

const why = "the module runs in a browser, and this needs Node";

const inBrowser = (file: string): boolean =>
  runAnywhere.includes(file) ||
  !needNode.some((place) => (place.endsWith("/") ? file.startsWith(place) : file === place));

function layerProblem(from: string, to: string): string | undefined {
  // src/index.ts, which belongs to no folder, gathers everything; nothing imports it.
  if (from === "" || from === to) return undefined;
  if (to === "") return `${from} may not import src/index.ts`;
  const [left, right] = [groupOf(to), groupOf(from)];
  if (left < right || allowedInGroup.has(`${from} → ${to}`)) return undefined;
  const why = left === right ? "they are of one group" : "imports go left only";
  return `${from} may not import ${to}: ${why} (${layers.map((group) => group.join(", ")).join(" ← ")})`;
}

function groupOf(folder: string): number {
  return layers.findIndex((group) => group.includes(folder));
}

/** The folder of a file as `layers` has it; of an adapter with its own. */
function folderOf(file: string): string {
  if (layers.some((group) => group.includes(file))) return file;
  return /^(adapters\/[^/]+|[^/]+)(?=\/)/.exec(file)?.[0] ?? "";
}

function unknownFolders(files: readonly string[]): string[] {
  const folders = new Set(files.map(folderOf).filter((folder) => folder !== ""));
  return [...folders]
    .filter((folder) => groupOf(folder) < 0)
    .map((folder) => `src/${folder}: no layer; add it to scripts/check-layers.ts and docs/architecture.md`);
}

/** Files, each with the files that it imports. */
type Targets = ReadonlyMap<string, readonly string[]>;

const localTargets = (imports: ReadonlyMap<string, readonly Import[]>): Targets =>
  new Map(
    [...imports].map(([file, fileImports]) => {
      const local = fileImports.filter(({ specifier }) => specifier.startsWith("."));
      return [file, local.map(({ specifier }) => posix.normalize(posix.join(posix.dirname(file), specifier)))];
    }),
  );

/** Rust crates whose modules may not use each other in a circle. */
const crates: readonly string[] = ["native/core", "native/comm"];

function crateCycles(root: string, crate: string): string[] {
  const source = `${crate}/src`;
  return existsSync(join(root, source)) ? findCycles(source, rustImports(join(root, source))) : [];
}

/**
 * Files that reach each other by imports, also by imports of types: none of them can be read before the others. Each cycle is
 * listed once, a shortest one, from its first file in name order; of cycles with an import in common only the shortest is.
 */
function findCycles(folder: string, targets: Targets): string[] {
  const listed = new Set<string>();
  const cycles = [...targets.keys()].flatMap((file) => {
    if (listed.has(file)) return [];
    const cycle = shortestCycle(file, targets);
    for (const name of cycle ?? []) listed.add(name);
    return cycle === undefined ? [] : [[...cycle, file]];
  });
  // One wrong import closes many cycles: only the shortest of those that have an import in common is listed.
  const imports = new Set<string>();
  const kept = new Set<readonly string[]>();
  for (const cycle of [...cycles].sort((a, b) => a.length - b.length)) {
    const own = cycle.slice(1).map((file, index) => `${cycle[index]} → ${file}`);
    if (!own.some((one) => imports.has(one))) kept.add(cycle);
    for (const one of own) imports.add(one);
  }
  return cycles
    .filter((cycle) => kept.has(cycle))
    .map((cycle) => `${folder}/${cycle[0]}:1: cycle ${cycle.map((name) => `${folder}/${name}`).join(" → ")}`);
}

/** The shortest cycle of imports from a file back to itself. */
function shortestCycle(start: string, targets: Targets): string[] | undefined {
  const from = new Map<string, string>();
  const open = [start];
  for (let file = open.shift(); file !== undefined; file = open.shift()) {
    for (const target of targets.get(file) ?? []) {
      if (target === start) {
        const path = [file];
        while (path[0] !== start) path.unshift(from.get(path[0] as string) as string);
        return path;
      }
      if (from.has(target)) continue;
      from.set(target, file);
      open.push(target);
    }
  }
  return undefined;
}

/** The name of a folder's export in package.json. */
const exportName = (folder: string): string =>
  folder === "." ? "." : `./${exportedAs[folder] ?? posix.basename(folder)}`;

/** package.json's exports against the folders: each `src/<folder>/index.ts` has one, and each has its folder. */
function checkExports(root: string, files: readonly string[]): string[] {
  const manifest = join(root, "package.json");
  if (!existsSync(manifest)) return [];
  const { exports = {} } = JSON.parse(readFileSync(manifest, "utf8")) as { exports?: Record<string, unknown> };
  const expected = new Map(
    files
      .filter((file) => file === "index.ts" || /^(adapters\/)?[^/]+\/index\.ts$/.test(file))
      .map((file) => [exportName(posix.dirname(file)), file] as const),
  );
  const problems: string[] = [];
  for (const [name, file] of expected) {
    const stem = file.slice(0, -".ts".length);
    const types = (place: string) => ({ types: `./dist/${place}.d.ts` });
    const built = (place: string) => ({ default: `./dist/${place}.js` });
    const bundled = { "node-addons": `./dist/node/${name === "." ? "index" : posix.basename(name)}.js` };
    const browserFile = posix.join(posix.dirname(file), "browser");
    const browser = files.includes(`${browserFile}.ts`)
      ? { browser: { ...types(browserFile), ...built(browserFile) } }
      : {};
    const expected = { "heddle-source": `./src/${file}`, ...browser, ...types(stem), ...bundled, ...built(stem) };
    if (JSON.stringify(exports[name]) !== JSON.stringify(expected)) {
      problems.push(`package.json: exports["${name}"] should be ${JSON.stringify(expected)}`);
    }
  }
  for (const name of Object.keys(exports)) {
    if (!expected.has(name) && name !== "./package.json") {
      problems.push(`package.json: exports["${name}"] has no ${posix.join("src", name, "index.ts")}`);
    }
  }
  return problems;
}

const self = fileURLToPath(import.meta.url);
if (process.argv[1] !== undefined && resolve(process.argv[1]) === self) {
  const root = resolve(process.argv[2] ?? join(dirname(self), ".."));
  if (!existsSync(join(root, "src"))) {
    const isHelp = /^(-h|--help)$/.test(process.argv[2] ?? "");
    console.error(
      `usage: tsx scripts/check-layers.ts [folder]${isHelp ? "" : `\nthere is no folder ${join(root, "src")}`}`,
    );
    process.exit(isHelp ? 0 : 2);
  }
  const problems = checkLayers(root);
  for (const problem of problems) console.error(problem);
  const count = problems.length === 1 ? "1 violation" : `${problems.length} violations`;
  if (problems.length > 0) console.error(`${count} in ${relative(process.cwd(), root) || "."}`);
  process.exitCode = problems.length > 0 ? 1 : 0;
}
