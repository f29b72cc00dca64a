/** @module Programs of other systems that an engine calls. */
import { spawnSync } from "node:child_process";

/** What a program prints with some arguments; undefined if there is no such program, or it fails. */
export function outputOf(program: string, args: readonly string[]): string | undefined {
  const { status, stdout, error } = spawnSync(program, args, { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] });
  return error !== undefined || status !== 0 ? undefined : stdout;
}

/** Why a program fails with some arguments, in its own words; undefined if it does not, `absent` if there is no such program. */
export function failureOf(program: string, args: readonly string[]): { readonly said: string } | "absent" | undefined {
  const { status, signal, stdout, stderr, error } = spawnSync(program, args, { encoding: "utf8", stdio: "pipe" });
  if ((error as NodeJS.ErrnoException | undefined)?.code === "ENOENT") return "absent";
  if (error === undefined && status === 0) return undefined;
  const said = (stderr ?? "").trim() || (stdout ?? "").trim();
  return { said: said || (error?.message ?? `it ends with ${signal ?? `status ${status}`}`) };
}
