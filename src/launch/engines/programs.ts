/** @module Programs of other systems that an engine calls. */
import { spawnSync } from "node:child_process";

/** What a program prints with some arguments; undefined if there is no such program, or it fails. */
export function outputOf(program: string, args: readonly string[]): string | undefined {
  const { status, stdout, error } = spawnSync(program, args, { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] });
  return error !== undefined || status !== 0 ? undefined : stdout;
}
