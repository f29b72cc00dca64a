// Builds the native packages of every Linux on one Linux, for a release: Zig links, with the C library of each target. The packages
// are put into native/npm, from where scripts/pack.mjs takes them.
//
//   node native/cross.mjs [target ...]      such as linux-arm64-gnu; without one, all targets of Linux
//
// cargo-zigbuild and Zig come from Python packages, into .heddle/cross on the first run; Rust's standard library for a target comes
// from `rustup target add`. macOS and Windows have to be built there: linking for them needs Apple's and Microsoft's own files.

import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { delimiter, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { pythonEnvironment } from "../scripts/python.mjs";
import { withCargo } from "../scripts/setup.mjs";
import { placeAddon, targets } from "./targets.mjs";

const root = dirname(fileURLToPath(import.meta.url));
/** The targets that can be built here. */
export const crossTargets = Object.keys(targets).filter((name) => targets[name].os === "linux");

/** The targets among these whose standard library this Rust lacks. */
function lackingTargets(names, env) {
  const sysroot = spawnSync("rustc", ["--print", "sysroot"], { cwd: root, env, encoding: "utf8" }).stdout?.trim();
  if (!sysroot) throw new Error("Rust is not installed: get it from https://rustup.rs");
  return names.filter((name) => !existsSync(join(sysroot, "lib/rustlib", targets[name].triple, "lib")));
}

/** The Python that has cargo-zigbuild and Zig, and pip. */
export const toolsPython = () =>
  pythonEnvironment({
    name: "cross",
    requirements: join(root, "cross-requirements.txt"),
    say: () => console.log("installing cargo-zigbuild and Zig (300 MB on disk) into .heddle/cross"),
  });

/** Builds one target; returns the file that Rust made. */
function build(name, env) {
  const { triple, glibc, library } = targets[name];
  const args = ["zigbuild", "--release", "--locked", "-p", "heddle-binding"];
  // Rust links musl into what it builds unless told not to; an addon uses the one of Node.
  const flags = triple.endsWith("musl") ? { RUSTFLAGS: "-C target-feature=-crt-static" } : {};
  execFileSync("cargo", [...args, "--target", glibc === undefined ? triple : `${triple}.${glibc}`], {
    cwd: root,
    env: { ...env, ...flags },
    stdio: "inherit",
  });
  return join(root, "target", triple, "release", library);
}

const machines = { x64: 62, arm64: 183 };

/** What is wrong with an addon for its target: another processor, or a newer C library than it is to run on. */
export function mismatch(file, { cpu, libc, glibc }) {
  if (file.readUInt32BE(0) !== 0x7f454c46) return "no library of Linux";
  if (file.readUInt16LE(18) !== machines[cpu]) return `made for machine ${file.readUInt16LE(18)}, not for ${cpu}`;
  const asked = [...new Set(file.toString("latin1").match(/GLIBC_2\.\d+/g))].map((version) => Number(version.slice(8)));
  if (libc === "musl") return asked.length === 0 ? undefined : "linked with glibc, not with musl";
  const newest = Math.max(0, ...asked);
  return newest > Number(glibc.slice(2)) ? `asks for glibc 2.${newest}, newer than ${glibc}` : undefined;
}

async function main(names) {
  const unknown = names.find((name) => !crossTargets.includes(name));
  if (unknown !== undefined)
    throw new Error(`cannot build ${unknown} here; the targets are ${crossTargets.join(", ")}`);
  const wanted = names.length === 0 ? crossTargets : names;
  const env = withCargo(process.env);
  const lacking = lackingTargets(wanted, env).map((name) => targets[name].triple);
  if (lacking.length > 0) {
    throw new Error(`Rust has no standard library for ${lacking.join(", ")}: rustup target add ${lacking.join(" ")}`);
  }
  const path = `${dirname(await toolsPython())}${delimiter}${env.PATH}`;
  for (const name of wanted) {
    const file = build(name, { ...env, PATH: path });
    const wrong = mismatch(readFileSync(file), targets[name]);
    if (wrong !== undefined) throw new Error(`${file} is not what it is to be: ${wrong}`);
    placeAddon(name, file);
    console.log(`native: built ${name}`);
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  main(process.argv.slice(2)).catch((error) => {
    console.error(`heddle cross: ${error.message}`);
    process.exit(1);
  });
}
