/**
 * @module One writer to a folder of checkpoints.
 *
 * On Linux a run holds a folder by listening at an abstract socket (unix(7)) named after it: the system lets one
 * process do so, and takes the name back when that process has ended, however it ended. A lock file would outlive a
 * kill. Processes on other machines are not seen, and other systems have no such sockets.
 */
import { createHash } from "node:crypto";
import { mkdir, stat } from "node:fs/promises";
import { connect, createServer, type Server } from "node:net";
import { resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { HeddleError } from "../util/errors.ts";

/** A folder that this process alone writes checkpoints to. */
export interface FolderLock {
  /** Whether others on this machine are kept out; false where the system has no means to. */
  readonly exclusive: boolean;
  /** Gives the folder free; more than once does nothing. */
  release(): void;
}

/** Options of {@link lockFolder}. */
export interface LockOptions {
  /** Milliseconds to wait for a process that was killed and has not quite ended; default 3,000. */
  readonly patience?: number;
}

/**
 * Takes a folder, which is made when missing.
 *
 * @throws HeddleError `file` when another run of this machine holds it, naming its process, or when the folder cannot
 * be made.
 */
export async function lockFolder(folder: string, options: LockOptions = {}): Promise<FolderLock> {
  const name = await socketName(folder).catch((error: Error) => {
    throw new HeddleError("file", `checkpoints cannot be written to ${resolve(folder)}: ${error.message}`, {
      hint: "give checkpoint.directory a folder that this user may write to",
      cause: error,
    });
  });
  if (process.platform !== "linux") return { exclusive: false, release: () => {} };
  const deadline = performance.now() + (options.patience ?? 3000);
  for (;;) {
    const server = await listen(name);
    if (server !== undefined) return { exclusive: true, release: () => server.close() };
    const holder = await ask(name);
    if (holder === `${process.pid}` || performance.now() > deadline) throw inUse(folder, holder);
    await sleep(50);
  }
}

/** The same for every path that leads to the folder. */
async function socketName(folder: string): Promise<string> {
  await mkdir(folder, { recursive: true });
  const { dev, ino } = await stat(folder, { bigint: true });
  return `\0heddle-checkpoints-${createHash("sha256").update(`${dev} ${ino}`).digest("hex").slice(0, 32)}`;
}

/** Undefined when another listens there. */
function listen(name: string): Promise<Server | undefined> {
  return new Promise((done, failed) => {
    const server = createServer((socket) => socket.on("error", () => {}).end(`${process.pid}`));
    server.once("error", (error: NodeJS.ErrnoException) => {
      if (error.code === "EADDRINUSE") done(undefined);
      else failed(error);
    });
    server.listen(name, () => done(server));
    server.unref();
  });
}

/** The process that listens; undefined when it does not say, as it is busy or just ending. */
function ask(name: string): Promise<string | undefined> {
  return new Promise((done) => {
    let text = "";
    const socket = connect(name);
    socket.setTimeout(500, () => socket.destroy());
    socket.on("data", (bytes) => {
      text += String(bytes.subarray(0, 16));
    });
    socket.on("error", () => {});
    socket.once("close", () => done(/^\d{1,10}$/.test(text) ? text : undefined));
  });
}

function inUse(folder: string, holder: string | undefined): HeddleError {
  const who = holder === `${process.pid}` ? "another training of this process" : `process ${holder ?? "unknown"}`;
  return new HeddleError("file", `another run writes its checkpoints to ${resolve(folder)}: ${who}`, {
    hint: "choose another folder, or wait until that run ends",
  });
}
