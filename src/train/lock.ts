/**
 * @module Locks a folder of checkpoints for one writer.
 *
 * On Linux a run holds a folder by listening at an abstract socket (unix(7)) named after the folder: the system lets only one
 * process listen, and frees the name when that process ends, even if it is killed. A lock file would remain after a
 * kill. Processes on other machines are not seen, and other systems have no such sockets.
 */
import { createHash } from "node:crypto";
import { stat } from "node:fs/promises";
import { connect, createServer, type Server } from "node:net";
import { resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { makeFolder } from "../io/make-folder.ts";
import { HeddleError } from "../util/errors.ts";

/** A folder to which only this process writes checkpoints. */
export interface FolderLock {
  /** Whether other processes of this machine are locked out; false if the system has no abstract sockets. */
  readonly exclusive: boolean;
  /** Releases the folder; a second call does nothing. */
  release(): void;
}

/** Options of {@link lockFolder}. */
export interface LockOptions {
  /** Milliseconds to wait for a killed process to end; default 3,000. */
  readonly patience?: number;
}

/**
 * Locks a folder, which is created if missing.
 *
 * @throws HeddleError `file` if another run of this machine holds the folder, naming its process, or if the folder cannot
 * be created.
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

/** The name of the folder's socket, the same for every path of the folder. */
async function socketName(folder: string): Promise<string> {
  await makeFolder(folder);
  const { dev, ino } = await stat(folder, { bigint: true });
  return `\0heddle-checkpoints-${createHash("sha256").update(`${dev} ${ino}`).digest("hex").slice(0, 32)}`;
}

/** Listens at a socket; undefined if another process listens there. */
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

/** The id of the process that listens at a socket; undefined if the process is busy or ending. */
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
