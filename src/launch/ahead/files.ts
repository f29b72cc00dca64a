/** @module Which file an import means, of a program that is compiled ahead. What is in doubt is left to the loader. */
import { existsSync, readFileSync, realpathSync, statSync } from "node:fs";
import { isBuiltin } from "node:module";
import { dirname, extname, join, resolve, sep } from "node:path";
import { fileURLToPath } from "node:url";
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

/** Checks that a bare import is one of JavaScript, which Node finds and runs by itself. @throws NeedsLoader */
export function checkPackage(specifier: string, { root }: Project): void {
  if (isBuiltin(specifier)) {
    if (/^(?:node:)?module$/.test(specifier)) throw new NeedsLoader("hooks of modules may be registered");
    return;
  }
  const name = /^(?:@[^/]+\/)?[^/:#@.][^/:]*/.exec(specifier)?.[0];
  if (name === undefined) throw new NeedsLoader(`'${specifier}' is no name of a package`);
  const folder = packageFolder(name, root);
  if (folder === libraryRoot) return;
  const packages = `${sep}node_modules${sep}`;
  if (folder === undefined || !`${folder}${sep}`.includes(packages))
    throw new NeedsLoader(`the package '${name}' is none of node_modules`);
  if (namesTypeScript(JSON.parse(readFileSync(join(folder, "package.json"), "utf8"))))
    throw new NeedsLoader(`the package '${name}' is written in TypeScript`);
}

/** The folder of a package as the project's files see it: the project itself, or one of node_modules. */
function packageFolder(name: string, root: string): string | undefined {
  const { name: own } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as { name?: string };
  if (own === name) return realpathSync(root);
  for (let place = root; ; place = dirname(place)) {
    const folder = join(place, "node_modules", name);
    if (existsSync(join(folder, "package.json"))) return realpathSync(folder);
    if (dirname(place) === place) return undefined;
  }
}

/** Whether what a package.json says of its modules names files of TypeScript that are no declarations. */
function namesTypeScript(manifest: Readonly<Record<string, unknown>>): boolean {
  const modules = JSON.stringify([manifest["main"], manifest["module"], manifest["exports"]]);
  return /(?<!\.d)\.[cm]?tsx?"/.test(modules);
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
