/** @module Lowered programs from the project's cache. */
import { userOps } from "../ir/user-op.ts";
import { type LoweredProgram, type LowerTarget, lowerProgram } from "../lower/index.ts";
import { printProgram } from "../program/print.ts";
import type { Program } from "../program/program.ts";
import { DiskCache } from "./entries.ts";
import { cacheFolder } from "./folder.ts";
import { libraryDigest } from "./library.ts";

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

/** The cache of the working folder's project. */
function ownCache(): DiskCache | undefined {
  const folder = libraryDigest === undefined ? undefined : cacheFolder(process.cwd());
  return libraryDigest === undefined || folder === undefined ? undefined : new DiskCache(folder, libraryDigest);
}
