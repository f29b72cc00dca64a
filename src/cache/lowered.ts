/** @module Lowered programs from the project's cache. */
import { createHash } from "node:crypto";
import { existsSync, readdirSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { userOps } from "../ir/user-op.ts";
import { type LoweredProgram, type LowerTarget, lowerProgram } from "../lower/index.ts";
import { printProgram } from "../program/print.ts";
import type { Program } from "../program/program.ts";
import { readEnvironment } from "../util/settings.ts";
import { DiskCache } from "./entries.ts";

/** Shorter programs, such as those of single operations, are lowered in less time than a file takes. */
const shortText = 4000;

/** Lowers a program, or reads what this library lowered it to before. `cache`: undefined for none; default that of the project. */
export function cachedLowering(
  program: Program,
  target: LowerTarget,
  cache: DiskCache | undefined = ownCache(),
): LoweredProgram {
  const text = cache === undefined ? "" : printProgram(program);
  const lower = (): LoweredProgram => lowerProgram(program, target);
  if (cache === undefined || text.length < shortText || usesUserOps(text)) return lower();
  return cache.get(JSON.stringify([target, program.axes, text]), lower);
}

/** The text of a program names its ops, but the rule by which a user's op is lowered may depend on anything. */
const usesUserOps = (text: string): boolean =>
  userOps.size > 0 && Array.from(text.matchAll(/^\s*%\d+.* = (\w+)/gm)).some(([, name]) => userOps.has(name as string));

const maker = libraryDigest();

/** The cache of the working folder's project. */
function ownCache(): DiskCache | undefined {
  const { cache = "on" } = readEnvironment();
  const folder = cache === "on" ? projectFolder(process.cwd()) : cache === "off" ? undefined : resolve(cache);
  return maker === undefined || folder === undefined ? undefined : new DiskCache(folder, maker);
}

/** `.heddle/cache` beside the nearest package.json. */
function projectFolder(folder: string): string | undefined {
  if (existsSync(join(folder, "package.json"))) return join(folder, ".heddle", "cache");
  const parent = dirname(folder);
  return parent === folder ? undefined : projectFolder(parent);
}

/**
 * What identifies the library's code: the names of the bundle's files, which follow from their content. Undefined for single modules,
 * which change alone.
 */
function libraryDigest(): string | undefined {
  // Undefined in a CommonJS bundle.
  const place = import.meta.url as string | undefined;
  const file = place?.startsWith("file:") === true ? fileURLToPath(place) : "";
  if (!/[\\/]dist[\\/]node[\\/]chunk-\w+\.js$/.test(file)) return undefined;
  return createHash("sha256")
    .update(readdirSync(dirname(file)).sort().join("\n"))
    .digest("hex");
}
