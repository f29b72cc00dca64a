/** @module Where a project's cache is. */
import { existsSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { readEnvironment } from "../util/settings.ts";

/** The cache for what is in a folder: that of its project, or what `HEDDLE_CACHE` says; undefined for none. */
export function cacheFolder(of: string): string | undefined {
  const { cache = "on" } = readEnvironment();
  if (cache !== "on") return cache === "off" ? undefined : resolve(cache);
  const project = projectFolder(of);
  return project === undefined ? undefined : join(project, ".heddle", "cache");
}

/** The folder of the nearest package.json. */
export function projectFolder(folder: string): string | undefined {
  if (existsSync(join(folder, "package.json"))) return folder;
  const parent = dirname(folder);
  return parent === folder ? undefined : projectFolder(parent);
}
