/** @module Which native package a machine needs. */
import { readFileSync } from "node:fs";

/** The name of the package of this machine's platform after `heddle-`, such as `linux-x64-gnu`. */
export function ownPlatform(): string {
  return platformName(process.platform, process.arch, process.platform === "linux" && namesMusl(mappedFiles()));
}

/** The same of any platform; `musl` tells which C library a Linux has. */
export function platformName(system: string, processor: string, musl: boolean): string {
  const name = `${system}-${processor}`;
  if (system === "win32") return `${name}-msvc`;
  return system === "linux" ? `${name}-${musl ? "musl" : "gnu"}` : name;
}

/**
 * Whether the files that a process has mapped say that it runs on musl, as on Alpine: its loader is among them, under its
 * own name or as `libc.so`, which of glibc is no library. That a loader lies on the disk says nothing: musl can be installed
 * beside glibc. `process.report` would be slower, and not every runtime has it.
 */
export function namesMusl(maps: string): boolean {
  return /\/(?:ld-musl-[^/]*|libc\.musl-[^/]*|libc\.so)$/m.test(maps);
}

/** The files mapped into this process; where that is not to be read, those of glibc are the likely ones. */
function mappedFiles(): string {
  try {
    return readFileSync("/proc/self/maps", "utf8");
  } catch {
    return "";
  }
}

/**
 * Whether a Node lets native objects be finalized within a collection. Those before 20.18.3, 22.13 and 23.5 end the process there:
 * a reference must not be deleted (https://github.com/nodejs/node/pull/55620).
 */
export function finalizesAtOnce(version: string): boolean {
  const [major = 0, minor = 0, patch = 0] = version.split(".").map(Number);
  if (major === 20) return minor > 18 || (minor === 18 && patch >= 3);
  return major >= 24 || (major === 23 && minor >= 5) || (major === 22 && minor >= 13);
}
