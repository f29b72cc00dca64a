// Empty projects with the package as it would be published, for the commands that try it out.

import { execFileSync } from "node:child_process";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** Runs npm in a folder, without its notices; its errors are shown. */
export const npm = (args, cwd) =>
  execFileSync(
    process.platform === "win32" ? "npm.cmd" : "npm",
    [...args, "--no-audit", "--no-fund", "--loglevel=error", "--prefer-offline", "--ignore-scripts"],
    { cwd, stdio: ["ignore", "ignore", "inherit"] },
  );

/**
 * Makes a new project folder with these files, by name, and lets npm install these tarballs in it. `platform` are npm's
 * arguments for a platform other than this machine's.
 */
export function makeProject(folder, files, tarballs, platform = []) {
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "package.json"), '{ "name": "project", "private": true, "type": "module" }\n');
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);
  npm(["install", ...platform, ...tarballs], folder);
}
