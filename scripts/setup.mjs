// The one place that makes a fresh clone work: packages, native core, build. Plain Node, no dependencies.
//
//   node scripts/setup.mjs [--only packages,native,build] [--force]
//
// Each part runs only when it has something to do; when all is up to date nothing is printed.

import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import { delimiter, join } from "node:path";
import { fileURLToPath } from "node:url";
import { bundle } from "./bundle.mjs";
import { handleSignals, run } from "./process.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));
const parts = ["packages", "native", "build"];
const minimalNode = [20, 17];

/** Says what is done, one short line; dimmed words of explanation come from the tools themselves. */
const say = (line) => console.log(`heddle setup: ${line}`);

/** A failed step; only its message is shown. */
export class SetupError extends Error {}

/**
 * Brings the clone up to date. Resolves with the state of the native core:
 * `{ native: { ready: true } | { ready: false, reason } }`. A missing compiler is no error.
 */
export async function setup(options) {
  const started = startSetup(options);
  // Wait for both, so that a failure leaves no compiler running.
  const [build, native] = await Promise.allSettled([started.build, started.native]);
  for (const part of [build, native]) if (part.status === "rejected") throw part.reason;
  return { native: native.value };
}

/** Starts the parts of a setup: `build` (packages, then TypeScript) beside `native`, which needs no package. */
export function startSetup({ only = parts, force = false } = {}) {
  checkNode();
  process.chdir(root);
  const build = async () => {
    if (only.includes("packages")) await installPackages(force);
    if (only.includes("build")) await buildDist(force);
  };
  return {
    build: build(),
    native: only.includes("native") ? buildNative() : Promise.resolve({ ready: false, reason: "not asked for" }),
  };
}

function checkNode() {
  const [major, minor] = process.versions.node.split(".").map(Number);
  if (major > minimalNode[0] || (major === minimalNode[0] && minor >= minimalNode[1])) return;
  throw new SetupError(`Node ${minimalNode.join(".")} or newer is needed; this is ${process.version}`);
}

// Packages

async function installPackages(force) {
  const lockfile = join(root, "package-lock.json");
  const installed = join(root, "node_modules/.package-lock.json");
  const stamp = join(root, "node_modules/.heddle-lock");
  const lockHash = hashOf(readFileSync(lockfile));
  if (!force && existsSync(installed)) {
    if (readIfThere(stamp) === lockHash) return;
    // Installed by hand (`npm install`): accepted where it is newer than the lockfile.
    if (statSync(installed).mtimeMs >= statSync(lockfile).mtimeMs) return writeFileSync(stamp, lockHash);
  }
  say("installing packages (npm ci)");
  const npm = process.platform === "win32" ? "npm.cmd" : "npm";
  const { status, output } = await run(npm, ["ci", "--no-fund", "--no-audit", "--loglevel=error"], {
    cwd: root,
    stdio: "capture",
  });
  if (status !== 0) throw new SetupError(`npm ci failed (status ${status})\n${output}`);
  writeFileSync(stamp, lockHash);
}

// Native core

async function buildNative() {
  const script = join(root, "native/build.mjs");
  if (!existsSync(script)) return { ready: false, reason: "this copy has no native/build.mjs" };
  const env = withCargo(process.env);
  const missing = missingTools(env.PATH);
  if (missing !== undefined && !hasNativeBinary()) return { ready: false, reason: missing };
  const { status } = await run(process.execPath, [script], { cwd: root, env });
  if (status === 0) return { ready: true };
  return { ready: false, reason: missing ?? "the native core did not build; the messages above say why" };
}

/** Whether a binary for this platform is in the build's folder: it is used where there is no compiler. */
function hasNativeBinary() {
  const folder = join(root, "native/npm");
  if (!existsSync(folder)) return false;
  const names = readdirSync(folder, { recursive: true });
  return names.some((name) => name.startsWith(`${process.platform}-${process.arch}`) && name.endsWith(".node"));
}

/** rustup installs to ~/.cargo/bin, which is not on the PATH of a shell opened before. */
export function withCargo(env) {
  const bin = join(env.CARGO_HOME ?? join(homedir(), ".cargo"), "bin");
  if (!existsSync(bin) || (env.PATH ?? "").split(delimiter).includes(bin)) return { ...env };
  return { ...env, PATH: `${env.PATH ?? ""}${delimiter}${bin}` };
}

/** The tool that is missing to compile Rust, and how to get it; undefined where none is missing. */
export function missingTools(path) {
  if (!onPath("cargo", path)) {
    return (
      "Rust is not installed (needed: 1.95 or newer, to build the native core).\n" +
      "  get it from https://rustup.rs, then run the same command again"
    );
  }
  if (!["cc", "gcc", "clang"].some((name) => onPath(name, path))) {
    return (
      "a C linker is not installed (Rust needs one to build the native core).\n" +
      "  Debian and Ubuntu: apt-get install build-essential; Fedora: dnf install gcc; macOS: xcode-select --install"
    );
  }
  return undefined;
}

function onPath(name, path = "") {
  const file = process.platform === "win32" ? `${name}.exe` : name;
  return path.split(delimiter).some((folder) => folder !== "" && existsSync(join(folder, file)));
}

// Build

async function buildDist(force) {
  if (!force && isBuilt()) return;
  const dist = join(root, "dist");
  const sourcesHash = sourcesKey();
  say("compiling TypeScript");
  // Built in another folder and moved in one step: a running process never sees half a build, and no stale file stays.
  const fresh = join(root, `.build-${process.pid}`);
  try {
    const tsc = join(root, "node_modules/typescript/bin/tsc");
    if (!existsSync(tsc)) throw new SetupError("TypeScript is not installed; run: npm run setup");
    const { status, output } = await run(process.execPath, [tsc, "-p", "tsconfig.build.json", "--outDir", fresh], {
      cwd: root,
      stdio: "capture",
    });
    if (status !== 0) throw new SetupError(`the TypeScript build failed\n${output}`);
    mkdirSync(fresh, { recursive: true });
    await bundle(fresh, JSON.parse(readFileSync(join(root, "package.json"), "utf8")));
    writeFileSync(join(fresh, ".stamp"), sourcesHash);
    replaceFolder(fresh, dist);
  } finally {
    rmSync(fresh, { recursive: true, force: true });
  }
}

/** Whether `dist` exists and was built from the current sources. */
export function isBuilt() {
  return readIfThere(join(root, "dist/.stamp")) === sourcesKey();
}

function replaceFolder(fresh, target) {
  const old = `${fresh}-old`;
  if (existsSync(target)) renameSync(target, old);
  renameSync(fresh, target);
  rmSync(old, { recursive: true, force: true });
}

/** A key of the build's inputs: names, sizes and times of files, since reading every file would take longer. */
function sourcesKey() {
  const hash = createHash("sha256");
  hash.update(readFileSync(join(root, "package.json"))).update(readFileSync(join(root, "tsconfig.json")));
  hash.update(readFileSync(join(root, "tsconfig.build.json"))).update(readFileSync(join(root, "scripts/bundle.mjs")));
  for (const name of readdirSync(join(root, "src"), { recursive: true }).sort()) {
    if (!name.endsWith(".ts")) continue;
    const { size, mtimeMs } = statSync(join(root, "src", name));
    hash.update(`${name} ${size} ${mtimeMs}\n`);
  }
  return hash.digest("hex");
}

function hashOf(bytes) {
  return createHash("sha256").update(bytes).digest("hex");
}

function readIfThere(file) {
  return existsSync(file) ? readFileSync(file, "utf8") : undefined;
}

// Command line

async function main(args) {
  const force = args.includes("--force");
  const onlyIndex = args.indexOf("--only");
  const only = onlyIndex < 0 ? parts : (args[onlyIndex + 1] ?? "").split(",");
  const unknown = only.find((part) => !parts.includes(part));
  if (unknown !== undefined) throw new SetupError(`unknown part "${unknown}"; the parts are ${parts.join(", ")}`);
  const { native } = await setup({ only, force });
  if (!native.ready && only.includes("native")) {
    say(native.reason);
    say("going on without the native core: the reference executor works, slowly, in one process");
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  handleSignals();
  main(process.argv.slice(2)).catch((error) => {
    console.error(error instanceof SetupError ? `heddle setup: ${error.message}` : error);
    process.exit(1);
  });
}
