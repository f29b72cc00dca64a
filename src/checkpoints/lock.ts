/**
 * @module Locks a place of checkpoints for one writer, by a file `lock.json` in it that says who holds it: host, process and its start.
 *
 * A holder on this machine is looked up among the processes, so a lock that a killed process left is free at once. A holder elsewhere
 * (another host, or a container with processes of its own) is known to live by its signs of life: it touches the file every 2 s, and
 * is taken for dead when nothing has come for 20 s (in an object store 10 s and 100 s). A holder that was only paused finds at its next write that the place is no longer its
 * own, and ends with an error.
 */
import { randomBytes } from "node:crypto";
import { readFileSync, readlinkSync, rmSync, statSync } from "node:fs";
import { readdir, rename, rm, utimes } from "node:fs/promises";
import { hostname } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { nodeFiles } from "../io/commit.ts";
import { reasons } from "../io/read.ts";
import { HeddleError } from "../util/errors.ts";
import { isRunning } from "../util/process.ts";
import { absolutePlace, isLocal, openStorage } from "./drivers.ts";
import { readSmall, type Storage } from "./storage.ts";

/** A place to which only this process writes checkpoints. */
export interface FolderLock {
  /** Whether all other processes are locked out. */
  readonly exclusive: boolean;
  /** What the file of the lock contains, by which other processes of the run see that they see the same place. */
  readonly token: string;
  /** @throws HeddleError `file` if the place was removed, or another run has taken it */
  check(): Promise<void>;
  /** Releases the place; a second call does nothing. */
  release(): void;
}

/** Options of {@link lockFolder}. */
export interface LockOptions {
  /** Milliseconds to wait for a holder on this machine, such as a killed process that still ends; default 3,000. */
  readonly patience?: number;
  /** Milliseconds without a sign of life after which a holder elsewhere counts as dead; default 20,000 in a folder, 100,000 in an object store. */
  readonly staleAfter?: number;
}

/** The name of the file. */
export const lockName = "lock.json";
const folderBeat = 2000;
/** Each sign of life is a write that an object store counts. */
const storeBeat = 10_000;
/** Signs of life that may be missing before a holder counts as dead. */
const missing = 10;

/** Who holds a lock. */
interface Holder {
  /** Different for each lock. */
  readonly token: string;
  readonly host: string;
  readonly pid: number;
  /** What identifies the processes among which `pid` is a number: the machine since its start, and the container. */
  readonly among: string;
  /** When the process started, in the system's own unit; undefined if the system does not tell. */
  readonly started?: string;
}

/** The file of a lock, in a folder or an object store. */
interface LockFile {
  /** Milliseconds between signs of life. */
  readonly beat: number;
  create(text: string): Promise<boolean>;
  /** The text, and something that changes with each sign of life; undefined if there is no file. */
  read(): Promise<{ readonly text: string; readonly beat: string } | undefined>;
  /** Gives a sign of life. */
  touch(text: string): Promise<void>;
  /** Removes the file if it still has this text. */
  removeStale(text: string): Promise<void>;
  /** Removes the file of this process, at once where that can be. */
  remove(): void;
}

/**
 * Locks a place, which is created if missing.
 *
 * @throws HeddleError `file` if another run holds the place, naming its process, or if the place cannot be written to.
 */
export async function lockFolder(place: string, options: LockOptions = {}): Promise<FolderLock> {
  const file = isLocal(place) ? await localFile(place) : storedFile(await openStorage(place));
  const { patience = 3000, staleAfter = missing * file.beat } = options;
  const own = ownHolder();
  const text = `${JSON.stringify(own)}\n`;
  const begun = performance.now();
  let seen = { beat: "", since: begun };
  while (!(await file.create(text))) {
    const found = await file.read();
    if (found === undefined) continue;
    const holder = parseHolder(found.text);
    const isNear = holder?.among === own.among;
    if (holder !== undefined && isNear && !lives(holder)) {
      await file.removeStale(found.text);
      continue;
    }
    const now = performance.now();
    if (found.beat !== seen.beat) {
      // The first look tells nothing of signs of life; the second does.
      if (seen.beat !== "" && !isNear) throw inUse(place, holder, own);
      seen = { beat: found.beat, since: now };
    }
    if (isNear && (holder.pid === own.pid || now - begun > patience)) throw inUse(place, holder, own);
    if (!isNear && now - seen.since > staleAfter) await file.removeStale(found.text);
    else await sleep(50);
  }
  return held(place, file, text);
}

/** Whether this process sees the place that is locked with a token. */
export async function seesLock(storage: Storage, token: string): Promise<boolean> {
  try {
    const text = new TextDecoder().decode(await readSmall(storage, lockName, 2 ** 16));
    return text.trim() === token;
  } catch (error) {
    if ((error as { cause?: { code?: string } }).cause?.code === "ENOENT") return false;
    throw error;
  }
}

/** The lock of this process, which gives signs of life until it is released. */
function held(place: string, file: LockFile, text: string): FolderLock {
  const isOwn = async (): Promise<boolean> => (await file.read())?.text.trim() === text.trim();
  // A sign of life that fails is noticed by the next check.
  const beats = setInterval(() => void file.touch(text).catch(() => undefined), file.beat).unref();
  let released = false;
  const release = (): void => {
    if (released) return;
    released = true;
    clearInterval(beats);
    process.off("exit", release);
    try {
      file.remove();
    } catch {
      // The folder is gone, or read-only: others see that this process is.
    }
  };
  // Also where the process is ended by its own code.
  process.on("exit", release);
  return {
    exclusive: true,
    token: text.trim(),
    release,
    check: async () => {
      if (await isOwn()) return;
      const now = await file.read();
      const what = now === undefined ? `${lockName} was removed from` : "another run has taken";
      throw new HeddleError("file", `${what} ${absolutePlace(place)} while this run writes its checkpoints there`, {
        hint: "the folder of a run must stay as it is until the run ends; start the run again with --resume",
      });
    },
  };
}

/** A lock in a folder of this machine. */
async function localFile(folder: string): Promise<LockFile> {
  const place = absolutePlace(folder);
  const path = join(place, lockName);
  const cannot = (error: unknown): never => {
    const { code = "", message } = error as NodeJS.ErrnoException;
    throw new HeddleError("file", `checkpoints cannot be written to ${place}: ${reasons[code] ?? message}`, {
      hint: "give checkpoint.directory a folder that this user may write to",
      cause: error,
    });
  };
  await nodeFiles.makeFolder(place).catch((error: NodeJS.ErrnoException) => {
    // Linux refuses folders in /proc as if their parents were missing.
    throw error.code === "ENOENT" ? cannot({ code: "", message: "no folder can be made there" }) : cannot(error);
  });
  const storage = await openStorage(folder);
  const textOf = (from: string): string => readFileSync(from, "utf8");
  let own = "";
  return {
    beat: folderBeat,
    create: async (text) => {
      own = text;
      const isOwn = await storage
        .create(lockName, Buffer.from(text))
        .catch((error: unknown) => cannot((error as Error).cause ?? error));
      if (isOwn) await removeLeftovers(place);
      return isOwn;
    },
    read: async () => {
      try {
        return { text: textOf(path), beat: String(statSync(path).mtimeMs) };
      } catch (error) {
        if (["ENOENT", "ENOTDIR"].includes((error as NodeJS.ErrnoException).code ?? "")) return undefined;
        return cannot(error);
      }
    },
    touch: async () => {
      const now = new Date();
      await utimes(path, now, now);
    },
    removeStale: async (text) => {
      // Two that find a dead lock may both remove it: whoever has taken the new lock of the other gives it back.
      const aside = `${path}.${randomBytes(4).toString("hex")}.tmp`;
      try {
        await rename(path, aside);
      } catch {
        return;
      }
      const taken = textOf(aside);
      if (taken !== text) await storage.create(lockName, Buffer.from(taken));
      await rm(aside, { force: true });
    },
    remove: () => {
      if (textOf(path) === own) rmSync(path, { force: true });
    },
  };
}

/** Removes what processes left that were killed while they took a lock. */
async function removeLeftovers(place: string): Promise<void> {
  for (const name of await readdir(place)) {
    const [, pid] = /^lock\.json\.(\d+)-\d+\.tmp$/.exec(name) ?? [];
    if (pid !== undefined && !isRunning(Number(pid))) await rm(join(place, name), { force: true });
  }
}

/** A lock in an object store, which has conditional writes. */
function storedFile(storage: Storage): LockFile {
  const content = (text: string) => ({ bytes: Buffer.byteLength(text), chunks: [Buffer.from(text)] });
  let beats = 0;
  const read = async () => {
    try {
      const text = new TextDecoder().decode(await readSmall(storage, lockName, 2 ** 16));
      // Signs of life are spaces at the end.
      return { text, beat: String(text.length) };
    } catch (error) {
      if ((error as { cause?: { code?: string } }).cause?.code === "ENOENT") return undefined;
      throw error;
    }
  };
  return {
    beat: storeBeat,
    read,
    create: (text) => storage.create(lockName, Buffer.from(text)),
    touch: async (text) => {
      beats = (beats + 1) % 100;
      if ((await read())?.text.trim() === text.trim()) await storage.write(lockName, content(text + " ".repeat(beats)));
    },
    removeStale: async (text) => {
      if ((await read())?.text === text) await storage.remove(lockName);
    },
    remove: () => void storage.remove(lockName).catch(() => undefined),
  };
}

/** This process as a holder. */
function ownHolder(): Holder {
  const started = startOf(process.pid);
  return {
    token: randomBytes(12).toString("hex"),
    host: hostname(),
    pid: process.pid,
    among: processesOf(),
    ...(started === undefined ? {} : { started }),
  };
}

/** What identifies the processes that this process sees. */
function processesOf(): string {
  try {
    const boot = readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
    return `${boot} ${readlinkSync("/proc/self/ns/pid")}`;
  } catch {
    return hostname();
  }
}

/** When a process started, so that a later process of the same number is another one; undefined if there is none, or nobody tells. */
function startOf(pid: number): string | undefined {
  try {
    // The name of the program, in parentheses, may have spaces. A process that has ended and was not waited for is a zombie.
    const fields = readFileSync(`/proc/${pid}/stat`, "utf8")
      .replace(/^.*\) /s, "")
      .split(" ");
    return fields[0] === "Z" ? undefined : fields[19];
  } catch {
    return undefined;
  }
}

/** Whether a holder lives: a later process of the same number is another one. */
const lives = ({ pid, started }: Holder): boolean =>
  started === undefined ? isRunning(pid) : startOf(pid) === started;

/** The holder that a file names; undefined if the file is malformed: then only signs of life count. */
function parseHolder(text: string): Holder | undefined {
  try {
    const { token, host, pid, among, started } = JSON.parse(text) as Holder;
    const wellFormed =
      [token, host, among, started ?? ""].every((field) => typeof field === "string") && Number.isSafeInteger(pid);
    return wellFormed ? { token, host, pid, among, ...(started === undefined ? {} : { started }) } : undefined;
  } catch {
    return undefined;
  }
}

function inUse(place: string, holder: Holder | undefined, own: Holder): HeddleError {
  const elsewhere = holder?.among === own.among ? "" : ` on host ${holder?.host}`;
  const isSelf = elsewhere === "" && holder?.pid === own.pid;
  const who = holder === undefined ? "an unknown process" : `process ${holder.pid}${elsewhere}`;
  return new HeddleError(
    "file",
    `another run writes its checkpoints to ${absolutePlace(place)}: ${isSelf ? "another training of this process" : who}`,
    { hint: "choose another folder, or wait until that run ends" },
  );
}
