// Builds the addon and puts it into the platform package; does nothing when the sources have not changed.
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { addonName, ownTarget, packages, placeAddon, targets } from "./targets.mjs";

const root = dirname(fileURLToPath(import.meta.url));
const target = ownTarget();
const folder = join(packages, target);
const file = join(folder, addonName(target));
const hashFile = `${file}.hash`;

function sources(dir) {
  return readdirSync(dir, { withFileTypes: true }).flatMap((entry) => {
    const path = join(dir, entry.name);
    if (entry.isDirectory()) return ["target", "npm", "tests", "examples"].includes(entry.name) ? [] : sources(path);
    return /\.(rs|toml|lock)$/.test(entry.name) ? [path] : [];
  });
}

const hash = createHash("sha256");
for (const path of sources(root).sort()) {
  hash.update(relative(root, path)).update("\0").update(readFileSync(path)).update("\0");
}
const digest = hash.digest("hex");

if (
  !process.argv.includes("--force") &&
  existsSync(file) &&
  existsSync(hashFile) &&
  readFileSync(hashFile, "utf8") === digest
) {
  console.log(`native: ${relative(process.cwd(), file)} is up to date`);
} else {
  execFileSync("cargo", ["build", "--release", "--locked", "-p", "heddle-binding"], { cwd: root, stdio: "inherit" });
  placeAddon(target, join(root, "target", "release", targets[target].library));
  writeFileSync(hashFile, digest);
  console.log(`native: built ${relative(process.cwd(), file)}`);
}
