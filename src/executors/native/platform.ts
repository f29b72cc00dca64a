/** @module The native package of a machine. */
import { readFileSync } from "node:fs";

/** The name of the package of this machine's platform after `heddle-`, such as `linux-x64-gnu`. */
export function ownPlatform(): string {
  return platformName(process.platform, process.arch, process.platform === "linux" && namesMusl(mappedFiles()));
}

/** The same for any platform; `musl` is the C library of a Linux. */
export function platformName(system: string, processor: string, musl: boolean): string {
  const name = `${system}-${processor}`;
  if (system === "win32") return `${name}-msvc`;
  return system === "linux" ? `${name}-${musl ? "musl" : "gnu"}` : name;
}

/**
 * Whether a process's mapped files show that it runs on musl, as on Alpine: musl's loader is among them, under its own name or
 * as `libc.so`, which glibc does not have. A loader on the disk proves nothing, since musl can be installed beside glibc.
 * `process.report` would be slower, and not every runtime has it.
 */
export function namesMusl(maps: string): boolean {
  return /\/(?:ld-musl-[^/]*|libc\.musl-[^/]*|libc\.so)$/m.test(maps);
}

/** The files mapped into this process; empty if unreadable, since glibc is more likely. */
function mappedFiles(): string {
  try {
    return readFileSync("/proc/self/maps", "utf8");
  } catch {
    return "";
  }
}

/**
 * Whether a Node lets native objects be finalized within a collection. Nodes before 20.18.3, 22.13 and 23.5 end the process there,
 * since a reference must not be deleted (https://github.com/nodejs/node/pull/55620).
 */
export function finalizesAtOnce(version: string): boolean {
  const [major = 0, minor = 0, patch = 0] = version.split(".").map(Number);
  if (major === 20) return minor > 18 || (minor === 18 && patch >= 3);
  return major >= 24 || (major === 23 && minor >= 5) || (major === 22 && minor >= 13);
}
