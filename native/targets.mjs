// The platforms that have a native package: the one list that building, cross-building and packing read.
// `platformName` of src/executors/native/platform.ts finds the same names at run time; a test compares the two.

import { copyFileSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

/** Where the packages are put together, a folder each. */
export const packages = join(dirname(fileURLToPath(import.meta.url)), "npm");

/**
 * By name: what npm compares with the machine (`os`, `cpu`, `libc`), Rust's name of the target, and the file that Rust makes.
 * `glibc` is the oldest one that a release runs on: that of the oldest Node supported (Debian 10, RHEL 8).
 */
export const targets = {
  "linux-x64-gnu": linux("x64", "glibc", "x86_64-unknown-linux-gnu"),
  "linux-arm64-gnu": linux("arm64", "glibc", "aarch64-unknown-linux-gnu"),
  "linux-x64-musl": linux("x64", "musl", "x86_64-unknown-linux-musl"),
  "linux-arm64-musl": linux("arm64", "musl", "aarch64-unknown-linux-musl"),
  "darwin-x64": { os: "darwin", cpu: "x64", triple: "x86_64-apple-darwin", library: "libheddle_binding.dylib" },
  "darwin-arm64": { os: "darwin", cpu: "arm64", triple: "aarch64-apple-darwin", library: "libheddle_binding.dylib" },
  "win32-x64-msvc": { os: "win32", cpu: "x64", triple: "x86_64-pc-windows-msvc", library: "heddle_binding.dll" },
};

function linux(cpu, libc, triple) {
  const glibc = libc === "glibc" ? { glibc: "2.28" } : {};
  return { os: "linux", cpu, libc, ...glibc, triple, library: "libheddle_binding.so" };
}

/** The name of this machine's target. */
export function ownTarget() {
  const libc = process.report.getReport().header.glibcVersionRuntime === undefined ? "musl" : "glibc";
  const found = Object.entries(targets).find(
    ([, target]) =>
      target.os === process.platform &&
      target.cpu === process.arch &&
      (target.libc === undefined || target.libc === libc),
  );
  if (found === undefined) throw new Error(`no native package is made for ${process.platform} ${process.arch}`);
  return found[0];
}

/** The file of a target's package that holds the addon. */
export const addonName = (name) => `heddle.${name}.node`;

/** Puts what Rust made for a target into its package. */
export function placeAddon(name, library) {
  const folder = join(packages, name);
  const file = join(folder, addonName(name));
  mkdirSync(folder, { recursive: true });
  // Renamed into place, so that a process that has the old file loaded keeps it.
  copyFileSync(library, `${file}.new`);
  renameSync(`${file}.new`, file);
  const { version } = JSON.parse(readFileSync(join(packages, "../../package.json"), "utf8"));
  writeFileSync(join(folder, "package.json"), `${JSON.stringify(nativeManifest(name, version), null, 2)}\n`);
}

/** The package.json of a target's package; what is common to all packages is added when it is packed. */
function nativeManifest(name, version) {
  const { os, cpu, libc } = targets[name];
  return {
    name: `heddle-${name}`,
    version,
    description: `Native kernels of Heddle for ${name}`,
    license: "Apache-2.0",
    main: addonName(name),
    files: [addonName(name)],
    os: [os],
    cpu: [cpu],
    ...(libc === undefined ? {} : { libc: [libc] }),
  };
}
