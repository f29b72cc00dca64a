// Packs what is published: the package, which asks for the native packages of its own version as optional dependencies,
// and a native package for each platform that was built here (native/npm).
//
//   node scripts/pack.mjs --out <folder>       prints the names of the tarballs, one a line
//
// The optional dependencies are in the packed manifest only: a clone builds its own native core, and must not fetch one.

import { spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const natives = join(root, "native/npm");

/** The folders of the native packages that were built. */
function nativeFolders() {
  if (!existsSync(natives)) return [];
  return readdirSync(natives)
    .map((name) => join(natives, name))
    .filter((folder) => readdirSync(folder).some((name) => name.endsWith(".node")));
}

/** The manifest as published. Native packages of another version than this one's are refused: they would not be found. */
export function publishedManifest(manifest, nativeManifests) {
  const odd = nativeManifests.find(({ version }) => version !== manifest.version);
  if (odd !== undefined) {
    throw new Error(`${odd.name} has version ${odd.version}, ${manifest.name} ${manifest.version}: build it again`);
  }
  const { scripts: _scripts, devDependencies: _development, ...published } = manifest;
  const optionalDependencies = Object.fromEntries(nativeManifests.map(({ name, version }) => [name, version]));
  return { ...published, optionalDependencies };
}

const readManifest = (folder) => JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));

function npmPack(folder, out) {
  const args = ["pack", "--ignore-scripts", "--json", "--pack-destination", out];
  const npm = process.platform === "win32" ? "npm.cmd" : "npm";
  const { status, stdout, stderr } = spawnSync(npm, args, { cwd: folder, encoding: "utf8" });
  if (status !== 0) throw new Error(`npm pack in ${folder} failed\n${stderr}`);
  return join(out, JSON.parse(stdout)[0].filename);
}

function main(args) {
  const at = args.indexOf("--out");
  if (at < 0 || args[at + 1] === undefined) throw new Error("use: node scripts/pack.mjs --out <folder>");
  const out = resolve(args[at + 1]);
  mkdirSync(out, { recursive: true });
  const folders = nativeFolders();
  const manifest = readManifest(root);
  const stage = mkdtempSync(join(tmpdir(), "heddle-pack-"));
  try {
    for (const name of manifest.files) cpSync(join(root, name), join(stage, name), { recursive: true });
    const published = publishedManifest(manifest, folders.map(readManifest));
    writeFileSync(join(stage, "package.json"), `${JSON.stringify(published, null, 2)}\n`);
    for (const tarball of [npmPack(stage, out), ...folders.map((folder) => npmPack(folder, out))]) console.log(tarball);
  } finally {
    rmSync(stage, { recursive: true, force: true });
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  try {
    main(process.argv.slice(2));
  } catch (error) {
    console.error(`heddle pack: ${error.message}`);
    process.exit(1);
  }
}
