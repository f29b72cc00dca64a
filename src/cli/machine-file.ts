/** @module The option `--machine`: a file that describes a machine, or what `heddle machine` has measured of this one. */
import { existsSync, readFileSync } from "node:fs";
import { arch, cpus, homedir } from "node:os";
import { join } from "node:path";
import { Option } from "commander";
import { parseMachine } from "../cost/machine-data.ts";
import { loadNative } from "../executors/native/binding.ts";
import { threadsPerWorker, usableCores } from "../launch/cores.ts";
import { HeddleError } from "../util/errors.ts";
import { fingerprint } from "../util/hash.ts";
import { readEnvironment } from "../util/settings.ts";

/** The value of `--machine` for the figures that `heddle machine` measured. */
const measured = "measured";

/** `--machine <file>`. */
export const machineFlag = (): Option =>
  new Option("--machine <file>", `what plans assume of devices and links: JSON, or ${measured} (see heddle machine)`);

/**
 * The file with the figures of this machine for devices of `threads` threads; its name depends on processor, cores and
 * instruction set.
 */
export function measuredFile(threads: number): string {
  const native = loadNative();
  const isa = "error" in native ? undefined : native.info().isa;
  const hardware = [arch(), cpus()[0]?.model, usableCores().usable, isa, threads];
  return join(
    readEnvironment().cacheHome ?? join(homedir(), ".cache"),
    "heddle",
    `machine-${fingerprint(JSON.stringify(hardware))}.json`,
  );
}

/** Threads of a device that has all cores. */
export const allThreads = (): number => usableCores().usable;

/** Flags of a command that starts workers. */
interface MachineFlags {
  readonly machine?: string | undefined;
  readonly threads?: number | undefined;
  readonly workers?: number;
}

/**
 * The machine that a command's flags name, as JSON for the workers.
 *
 * @throws HeddleError `file` when the file cannot be read, `format` or `option` when it is malformed, `option` when
 * nothing has been measured
 */
export function machineOption(flags: MachineFlags): {
  machine?: string;
} {
  const { machine, workers = 1, threads = threadsPerWorker(allThreads(), workers) } = flags;
  if (machine === undefined) return {};
  const file = machine === measured ? measuredFile(threads) : machine;
  if (machine === measured && !existsSync(file))
    throw new HeddleError(
      "option",
      `--machine measured: devices of ${threads} ${threads === 1 ? "thread" : "threads"} have not been measured here`,
      {
        hint: `heddle machine --threads ${threads} measures them, in some seconds`,
      },
    );
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch (error) {
    throw new HeddleError("file", `--machine: ${file} cannot be read: ${(error as Error).message}`);
  }
  return { machine: JSON.stringify(parseMachine(text, file)) };
}
