/** @module The Node arguments that start a user's file. */

import { existsSync, readFileSync } from "node:fs";
import { createRequire, register } from "node:module";
import { extname } from "node:path";
import { pathToFileURL } from "node:url";
import { directive } from "../adapters/autograph/directive.ts";
import { ownVariables } from "../util/settings.ts";
import type { Ahead } from "./ahead/program.ts";

const moduleUrl = (name: string): string =>
  new URL(`./${name}${extname(new URL(import.meta.url).pathname)}`, import.meta.url).href;

/**
 * Arguments for `node` that run `file`, TypeScript included, with this package's preload first.
 *
 * @param ahead what came of compiling the file ahead (`ahead/program.ts`); default: the loader runs it
 */
export function nodeArguments(file: string, args: readonly string[], ahead?: Ahead): string[] {
  if (process.versions.deno !== undefined) return denoArguments(file, args);
  const preload = moduleUrl("preload");
  // The sources need the loader themselves, and are not what a user's file imports.
  const isBuild = !preload.endsWith(".ts");
  const library = isBuild && namesLibrary(file) ? [moduleUrl("library")] : [];
  // The cache may be gone since.
  if (ahead !== undefined && "file" in ahead && existsSync(ahead.file))
    return [...heapArguments(), ...imported([...library, standInUrl(preload, ahead.file, file)]), ahead.file, ...args];
  // Hooks that are registered later run around earlier ones: the transform sees the file as the user wrote it.
  const hooks = hookModules(isTypeScript(file) || !isBuild);
  return [...heapArguments(), ...imported([...library, ...hooks, preload]), file, ...args];
}

const imported = (urls: readonly string[]): string[] => urls.flatMap((url) => ["--import", url]);

/** The modules that register the hooks with which Node runs a user's files: the transform, and the loader where types are not stripped. */
export function hookModules(isTyped: boolean): string[] {
  const isBuild = !moduleUrl("preload").endsWith(".ts");
  return [
    ...(isBuild ? [moduleUrl(transformName())] : []),
    ...(isTyped && !stripsTypes() ? [isBuild ? moduleUrl("typescript") : loaderUrl()] : []),
  ];
}

/** A compiled file that stands in for a user's. */
export interface StandIn {
  readonly compiled: string;
  readonly file: string;
}

/** The preload's URL for a process that runs a compiled file. */
function standInUrl(preload: string, compiled: string, file: string): string {
  return `${preload}?${new URLSearchParams({ compiled, file })}`;
}

/** What {@link standInUrl} says; undefined for a process that the loader runs. */
export function standInOf(preload: string): StandIn | undefined {
  const { searchParams } = new URL(preload);
  const [compiled, file] = [searchParams.get("compiled"), searchParams.get("file")];
  return compiled === null || file === null ? undefined : { compiled, file };
}

/**
 * V8 lets the space of young objects grow to 48 MB while a program is traced and planned, and keeps it. With parts of 2 MiB a step takes as
 * long as before, and a worker 18 to 30 MB less. Old garbage is looked for from 32 MB on: what compiling leaves would lie beside the arena. What
 * the user says about either goes first.
 */
function heapArguments(): string[] {
  const said = (ownVariables()["NODE_OPTIONS"] ?? "").replaceAll("_", "-");
  const sizes = { "--max-semi-space-size": 2, "--initial-old-space-size": 32 };
  const unsaid = Object.entries(sizes).filter(([flag]) => !said.includes(flag));
  return process.versions.bun === undefined ? unsaid.map(([flag, size]) => `${flag}=${size}`) : [];
}

/** Whether a file speaks of the library, which is loaded first then. */
const namesLibrary = (file: string): boolean => existsSync(file) && readFileSync(file, "utf8").includes("heddle");

/** The module that registers the transform in this runtime. */
function transformName(): string {
  if (process.versions.bun !== undefined) return "autograph-bun";
  return Number(process.versions.node.split(".")[0]) < 26 ? "autograph-register" : "autograph-sync";
}

/**
 * The arguments for Deno, which takes preloads only as its own options. Deno loads no native addon while hooks are registered: so the
 * preload comes first and loads Heddle's addon, and the hooks are registered only for a file that needs them.
 */
function denoArguments(file: string, args: readonly string[]): string[] {
  const transform = readFileSync(file, "utf8").includes(directive) ? ["--import", moduleUrl("autograph-sync")] : [];
  return ["run", "--allow-all", "--import", moduleUrl("preload"), ...transform, file, ...args];
}

/** Name and version of this runtime: `Node v22.18.0`, `Bun 1.4.5`, `Deno 2.9.6`. */
export function runtimeName(): string {
  const { bun, deno } = process.versions;
  if (bun !== undefined) return `Bun ${bun}`;
  return deno === undefined ? `Node ${process.version}` : `Deno ${deno}`;
}

/** Whether this runtime runs TypeScript without a loader: Node from 22.18 and 23.6 on, Bun and Deno. */
export function stripsTypes(): boolean {
  if (process.versions.bun !== undefined || process.versions.deno !== undefined) return true;
  const features = process.features as { readonly typescript?: "strip" | "transform" | false };
  return typeof features.typescript === "string";
}

/** How TypeScript is run here, in words. */
export function loaderName(): string {
  return stripsTypes() ? `${runtimeName()} strips types by itself` : `tsx ${loaderVersion()}`;
}

function isTypeScript(file: string): boolean {
  return [".ts", ".mts", ".cts", ".tsx"].includes(extname(file));
}

// By full path, since a user's project need not have tsx among its own packages.
function loaderUrl(): string {
  return pathToFileURL(require.resolve("tsx")).href;
}

/** Lets this thread import TypeScript: the loader registers itself in the first thread only. */
export function registerLoader(): void {
  register("tsx/esm", import.meta.url, { data: {} });
}

function loaderVersion(): string {
  return (require("tsx/package.json") as { version: string }).version;
}

const require = createRequire(import.meta.url);
