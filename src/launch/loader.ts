/** @module How a user's file is started: with which Node arguments. */

import { createRequire, register } from "node:module";
import { extname } from "node:path";
import { pathToFileURL } from "node:url";

/** Arguments for `node` that run `file`, TypeScript included, with this package's preload first. */
export function nodeArguments(file: string, args: readonly string[]): string[] {
  const own = (name: string): URL => new URL(`./${name}${extname(new URL(import.meta.url).pathname)}`, import.meta.url);
  const preload = own("preload");
  const typescript = isTypeScript(file) || preload.pathname.endsWith(".ts");
  const loader = typescript && !stripsTypes() ? ["--import", loaderUrl()] : [];
  // Hooks that are registered later run around those before: the transform sees the file as the user wrote it.
  const transform = ["--import", own("autograph-register").href];
  return [...(preload.pathname.endsWith(".ts") ? [] : transform), ...loader, "--import", preload.href, file, ...args];
}

/** Whether this Node runs TypeScript by itself (from 22.18 and 23.6 on). */
export function stripsTypes(): boolean {
  const features = process.features as { readonly typescript?: "strip" | "transform" | false };
  return typeof features.typescript === "string";
}

/** What runs TypeScript here, for people. */
export function loaderName(): string {
  return stripsTypes() ? `Node ${process.version} strips types by itself` : `tsx ${loaderVersion()}`;
}

function isTypeScript(file: string): boolean {
  return [".ts", ".mts", ".cts", ".tsx"].includes(extname(file));
}

// By full path, since a user's project need not have tsx among its own packages.
function loaderUrl(): string {
  return pathToFileURL(require.resolve("tsx")).href;
}

/** Lets this thread import TypeScript: what the loader does in the first thread only. */
export function registerLoader(): void {
  register("tsx/esm", import.meta.url, { data: {} });
}

function loaderVersion(): string {
  return (require("tsx/package.json") as { version: string }).version;
}

const require = createRequire(import.meta.url);
