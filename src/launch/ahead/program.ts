/**
 * @module A user's program compiled ahead: its files as JavaScript in the project's cache, once for all workers, which then need no loader
 * in their process. What cannot be compiled so that it runs as with the loader is left to the loader.
 *
 * Each file is found by its content, so that one that changes is compiled anew. The files of a program refer to each other by relative
 * paths within one folder, named by all of their content: runs at the same time write the same, and a folder never changes.
 */
import { readFileSync, realpathSync } from "node:fs";
import { dirname, extname, sep } from "node:path";
import { DiskCache, makeCacheFolder } from "../../cache/entries.ts";
import { cacheFolder } from "../../cache/folder.ts";
import { libraryDigest } from "../../cache/library.ts";
import { ownVariables } from "../../util/settings.ts";
import type { Compiled } from "./compile.ts";
import {
  checkIsModule,
  checkPackage,
  checkPackages,
  NeedsLoader,
  type Project,
  projectOf,
  relativeFile,
  tsconfigOf,
} from "./files.ts";
import { type ProgramFile, writeProgram } from "./store.ts";

/** Programs of more files, or files of more bytes, are left to the loader. */
const mostFiles = 500;
const mostBytes = 4e6;

/** What came of a program: the compiled file that takes the place of the user's, or why the loader runs it. */
export type Ahead = { readonly file: string } | { readonly loader: string };

/** Compiles a program, or finds it in its project's cache. Whatever goes wrong, the loader runs the program instead. */
export async function compiledAhead(file: string): Promise<Ahead> {
  try {
    return { file: await compileProgram(realpathSync(file)) };
  } catch (error) {
    return { loader: (error as Error).message };
  }
}

async function compileProgram(entry: string): Promise<string> {
  const needs = (what: string): never => {
    throw new NeedsLoader(what);
  };
  const { bun, deno } = process.versions;
  if (bun !== undefined || deno !== undefined) return needs("this runtime compiles by itself");
  if (libraryDigest === undefined) return needs("the library is not bundled");
  if (/--(?:experimental-)?loader\b|--conditions\b|(?:^|\s)-C/.test(ownVariables()["NODE_OPTIONS"] ?? ""))
    return needs("NODE_OPTIONS says how modules are found");
  const project = projectOf(entry) ?? needs("the file is in no project");
  const folder = cacheFolder(dirname(entry)) ?? needs("there is no cache");
  // Compiled files import packages from here.
  checkPackages(folder, project);
  makeCacheFolder(folder);
  const cache = new DiskCache(folder, `${libraryDigest} ${process.version}`);
  return writeProgram(folder, await filesOf(entry, project, cache));
}

/** The files of a program, the first of which is its entry. */
async function filesOf(entry: string, project: Project, cache: DiskCache): Promise<ProgramFile[]> {
  const files = new Map<string, ProgramFile>();
  const config = tsconfigOf(process.cwd());
  for (let next = [entry]; next.length > 0; ) {
    const level = await Promise.all(next.map((file) => compiledFile(file, project, cache, config)));
    for (const compiled of level) files.set(compiled.file, compiled);
    next = [...new Set(level.flatMap(({ links }) => [...links.values()]))].filter((file) => !files.has(file));
    if (files.size + next.length > mostFiles) throw new NeedsLoader("the program has too many files");
  }
  return [...files.values()];
}

async function compiledFile(
  file: string,
  project: Project,
  cache: DiskCache,
  config: ReturnType<typeof tsconfigOf>,
): Promise<ProgramFile> {
  const text = readFileSync(file, "utf8");
  if (text.length > mostBytes) throw new NeedsLoader(`${file} is too large`);
  checkPackages(dirname(file), project);
  if (file.includes(`${sep}node_modules${sep}`)) throw new NeedsLoader(`${file} is in a package`);
  if (extname(file) !== ".json") checkIsModule(file, text, project);
  const key = JSON.stringify([file, text, config]);
  const found = cache.find<Compiled | string>(key)?.value;
  const compiled = found ?? cache.keep(key, await compiledOrReason(file, text, config?.file));
  if (typeof compiled === "string") throw new NeedsLoader(compiled);
  const links = new Map<string, string>();
  for (const { specifier } of compiled.imports)
    if (/^\.\.?\//.test(specifier)) links.set(specifier, relativeFile(specifier, file));
    else checkPackage(specifier, project);
  return { ...compiled, file, links };
}

/** A compiled file, or why it cannot be one, which is kept, too. */
async function compiledOrReason(file: string, text: string, tsconfig: string | undefined): Promise<Compiled | string> {
  // The compiler is loaded only for what is new.
  const { compileFile } = await import("./compile.ts");
  try {
    return await compileFile(file, text, tsconfig);
  } catch (error) {
    if (error instanceof NeedsLoader) return error.message;
    throw error;
  }
}
