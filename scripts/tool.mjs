// Tools that only one command of a clone needs: their packages are in .heddle, with their own lockfile.

import { copyFileSync, existsSync, mkdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { run } from "./process.mjs";
import { SetupError } from "./setup.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));
const lock = "package-lock.json";

/** Installs the packages of `scripts/<from>` into `.heddle/<into>`, unless exactly those of its lockfile are installed; returns that folder. */
export async function installTool(from, into, name) {
  const home = join(root, ".heddle", into);
  const stamp = join(home, "node_modules", ".heddle-lock");
  const lockText = readFileSync(join(root, "scripts", from, lock), "utf8");
  if (existsSync(stamp) && readFileSync(stamp, "utf8") === lockText) return home;
  console.log(`installing ${name} into .heddle/${into}`);
  rmSync(home, { recursive: true, force: true });
  mkdirSync(home, { recursive: true });
  for (const file of ["package.json", lock]) copyFileSync(join(root, "scripts", from, file), join(home, file));
  const npm = process.platform === "win32" ? "npm.cmd" : "npm";
  const { status, output } = await run(npm, ["ci", "--no-fund", "--no-audit", "--loglevel=error"], {
    cwd: home,
    stdio: "capture",
  });
  if (status !== 0) {
    rmSync(home, { recursive: true, force: true });
    throw new SetupError(`npm ci failed (status ${status})\n${output}`);
  }
  copyFileSync(join(home, lock), stamp);
  return home;
}
