/** @module The secret of a run that another launcher than Heddle's has started. */
import { randomBytes } from "node:crypto";
import { existsSync, linkSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import { dirname, join } from "node:path";
import { HeddleError } from "../util/errors.ts";
import { type Environment, readEnvironment } from "../util/settings.ts";
import { isLoopback } from "./launchers.ts";

/**
 * The secret of the run whose rank 0 is on this host: `HEDDLE_SECRET`, the content of `HEDDLE_SECRET_FILE`, or, on the loopback address, a
 * secret that only this user can read, which is made when it is first needed. Undefined if there is none.
 *
 * @throws HeddleError `file` if a file cannot be read, or is empty.
 */
export function runSecret(host: string, environment: Environment = readEnvironment()): string | undefined {
  const { secret, secretFile, cacheHome } = environment;
  if (secret !== undefined) return secret;
  if (secretFile !== undefined) return readSecret(secretFile);
  return isLoopback(host) ? userSecret(join(cacheHome ?? join(homedir(), ".cache"), "heddle")) : undefined;
}

/** The secret in a file. @throws HeddleError `file` */
export function readSecret(file: string): string {
  let secret: string;
  try {
    secret = readFileSync(file, "utf8").trim();
  } catch (error) {
    throw new HeddleError("file", `the secret cannot be read: ${(error as Error).message}`, { cause: error });
  }
  if (secret !== "") return secret;
  throw new HeddleError("file", `the secret in ${file} is empty`);
}

function userSecret(folder: string): string {
  const file = join(folder, "secret");
  const own = `${file}.tmp-${process.pid}`;
  try {
    return readSecret(file);
  } catch (error) {
    if (((error as Error).cause as NodeJS.ErrnoException | undefined)?.code !== "ENOENT") throw error;
  }
  try {
    // Not with `recursive`: where the system refuses folders, as in `/proc`, Node would never return.
    for (const path of [dirname(folder), folder]) if (!existsSync(path)) mkdirSync(path);
    writeFileSync(own, randomBytes(32).toString("hex"), { mode: 0o600 });
    // Of several ranks the first one makes the file, and whole.
    linkSync(own, file);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST")
      throw new HeddleError("file", `a secret cannot be kept: ${(error as Error).message}`, {
        hint: "HEDDLE_SECRET or HEDDLE_SECRET_FILE gives one",
        cause: error,
      });
  } finally {
    rmSync(own, { force: true });
  }
  // Another rank that made the folder may not have made the file yet.
  return existsSync(file) ? readSecret(file) : userSecret(folder);
}
