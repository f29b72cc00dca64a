/** @module Which file an import means, of a program that is compiled ahead. What is in doubt is left to the loader. */
import { existsSync, readFileSync, realpathSync, statSync } from "node:fs";
import { isBuiltin } from "node:module";
import { dirname, extname, join, resolve, sep } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { moduleResolve } from "import-meta-resolve";
import { projectFolder } from "../../cache/folder.ts";

/** A reason why a program is run by the loader instead. */
export class NeedsLoader extends Error {}

/** What the files of a program share. */
export interface Project {
  /** The folder of its package.json. */
  readonly root: string;
  /** The `type` of package.json. */
  readonly type: string | undefined;
}

/** The project of a file; undefined without a package.json. */
export function projectOf(file: string): Project | undefined {
  const root = projectFolder(dirname(file));
  if (root === undefined) return undefined;
  const { type } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as { type?: string };
  return { root, type };
}

/**
 * Checks that packages which are imported from `folder` are those of the project's root: then a compiled file, which is elsewhere in the
 * project, gets the same.
 *
 * @throws NeedsLoader
 */
export function checkPackages(folder: string, { root }: Project): void {
  if (folder !== root && !folder.startsWith(root + sep)) throw new NeedsLoader(`${folder} is outside of the project`);
  for (let place = folder; place !== root; place = dirname(place))
    if (existsSync(join(place, "package.json")) || existsSync(join(place, "node_modules")))
      throw new NeedsLoader(`${place} has packages of its own`);
}

const typeScript = [".ts", ".mts", ".tsx"];
/** Endings of files that may be written for the one of an import, as compilers and tsx take it. */
const writtenFor: Readonly<Record<string, readonly string[]>> = {
  ".js": [".js", ".ts", ".tsx"],
  ".mjs": [".mjs", ".mts"],
  "": [".ts", ".tsx", ".js", ".mjs", ".json"],
};

/** The file of a relative import. @throws NeedsLoader if there is none, or more than one could be meant */
export function relativeFile(specifier: string, importer: string): string {
  if (/[?#%\\]/.test(specifier)) throw new NeedsLoader(`'${specifier}' is more than a path`);
  const path = resolve(dirname(importer), specifier);
  const ending = extname(path);
  const others = writtenFor[ending];
  const stem = ending === "" ? path : path.slice(0, -ending.length);
  const found = (others === undefined ? [path] : others.map((other) => stem + other)).filter(
    (file) => statSync(file, { throwIfNoEntry: false })?.isFile() === true,
  );
  const [file] = found;
  if (file === undefined || found.length > 1)
    throw new NeedsLoader(
      `'${specifier}' of ${importer} is ${found.length === 0 ? "no file" : "one of several files"}`,
    );
  return realpathSync(file);
}

/** Checks that a file is an ES module for the loader, too. @throws NeedsLoader */
export function checkIsModule(file: string, text: string, { type }: Project): void {
  const ending = extname(file);
  if (ending === ".mts" || ending === ".mjs") return;
  if (ending !== ".js" && !typeScript.includes(ending)) throw new NeedsLoader(`${file} is no module`);
  // Without `type`, a file of TypeScript that is written as a module is one (module-hooks.ts), and one of JavaScript on newer Nodes alone.
  const isModule = type === undefined ? ending !== ".js" && /^(?:import|export)\b/m.test(text) : type === "module";
  if (!isModule) throw new NeedsLoader(`${file} is CommonJS`);
}

const libraryRoot = realpathSync(projectFolder(dirname(fileURLToPath(import.meta.url))) as string);
/** The conditions of package.json that hold for an import in Node without options. */
const conditions = new Set(["node", "import", "module-sync", "node-addons"]);

/**
 * Checks that an import which is no relative path is one of JavaScript, which Node finds and runs by itself.
 *
 * @throws NeedsLoader, or the error of Node's resolution, for what only the loader may find
 */
export function checkPackage(specifier: string, { root }: Project): void {
  if (isBuiltin(specifier)) {
    if (/^(?:node:)?module$/.test(specifier)) throw new NeedsLoader("hooks of modules may be registered");
    return;
  }
  const url = withoutWarnings(() => moduleResolve(specifier, pathToFileURL(join(root, "package.json")), conditions));
  if (url.protocol !== "file:") throw new NeedsLoader(`'${specifier}' is no file`);
  const file = fileURLToPath(url);
  if (!file.startsWith(libraryRoot + sep) && !file.includes(`${sep}node_modules${sep}`))
    throw new NeedsLoader(`'${specifier}' is not in node_modules`);
  if (![".js", ".mjs", ".cjs", ".json"].includes(extname(file)))
    throw new NeedsLoader(`'${specifier}' is ${file}, which is no JavaScript`);
}

/** Calls a function that may warn of what is deprecated, of which Node warns where the program runs. */
function withoutWarnings<T>(run: () => T): T {
  const { noDeprecation = false } = process;
  process.noDeprecation = true;
  try {
    return run();
  } finally {
    process.noDeprecation = noDeprecation;
  }
}

/** The tsconfig.json that tsx takes: the nearest above the working folder. Its `texts` are its own and of those that it extends. */
export function tsconfigOf(folder: string): { readonly file: string; readonly texts: readonly string[] } | undefined {
  const file = join(folder, "tsconfig.json");
  const parent = dirname(folder);
  if (!existsSync(file)) return parent === folder ? undefined : tsconfigOf(parent);
  const texts: string[] = [];
  gatherTsconfig(file, texts);
  if (texts.some((text) => /"(?:paths|baseUrl)"/.test(text))) throw new NeedsLoader(`${file} has paths`);
  return { file, texts };
}

function gatherTsconfig(file: string, texts: string[]): void {
  if (texts.length > 10) throw new NeedsLoader(`${file} extends too many others`);
  const text = readFileSync(file, "utf8");
  texts.push(text);
  // With comments and trailing commas it is no JSON. What a comment extends is read for nothing.
  for (const [, value] of text.matchAll(/"extends"\s*:\s*(\[[^\]]*\]|"[^"]*")/g))
    for (const [, base] of (value as string).matchAll(/"([^"]*)"/g)) {
      const path = resolve(dirname(file), base as string);
      const found =
        (base as string).startsWith(".") &&
        [path, `${path}.json`].find((name) => statSync(name, { throwIfNoEntry: false })?.isFile());
      if (!found) throw new NeedsLoader(`${file} extends '${base}'`);
      gatherTsconfig(found, texts);
    }
}
