/**
 * @module Checkpoints: everything that a run needs to resume with the same bits, in one safetensors file.
 *
 * A checkpoint is `step-00000468.safetensors` in the run's folder. Its tensors are `params/…`, `optimizer/…` and
 * `state/…`; its metadata have the rest (`heddle.checkpoint`, JSON) and a SHA-256 of each tensor and of the header (`io/digests.ts`); in
 * format 1 one of the whole file, computed with zeros in the place of the hash (`heddle.sha256`). The file is committed as in `commit.ts`: if the process is killed at any instant, the
 * previous checkpoint or the new one is there, complete. Any tool that reads safetensors can read a checkpoint.
 */
import { createHash } from "node:crypto";
import { join, resolve } from "node:path";
import { checkpointFileName, checkpointStep } from "../io/checkpoint-name.ts";
import {
  type CommitFiles,
  type CommitOptions,
  commitFile,
  nodeFiles,
  removeStaleTemporaries,
  type StaleOptions,
} from "../io/commit.ts";
import { digestedSafetensors, type HostTensors, readSafetensors } from "../io/safetensors.ts";
import { HeddleError } from "../util/errors.ts";
import type { Plain } from "../util/text.ts";
import { version } from "../util/version.ts";

/** The content of a checkpoint. */
export interface CheckpointState {
  /** Optimizer steps since the run began. */
  readonly step: number;
  /** The next batch to read: the epoch, and the batch in the epoch, both counted from 0. */
  readonly position: { readonly epoch: number; readonly step: number };
  /** The run's seed. */
  readonly seed: number;
  /** The random key, as unsigned 32-bit words. */
  readonly key: readonly number[];
  /** Copies of the values, named `params/…`, `optimizer/…`, `state/…`. */
  readonly tensors: HostTensors;
  /** Other data as JSON, such as the dataset's description and the history; numbers must be finite. */
  readonly extra?: { readonly [key: string]: Plain };
}

/** A checkpoint that has been read and verified. */
export interface Checkpoint extends Required<CheckpointState> {
  /** Absolute path of the file. */
  readonly path: string;
  /** The version of Heddle that wrote the file. */
  readonly library: string;
}

/** Options of {@link saveCheckpoint}. */
export interface SaveCheckpointOptions extends CommitOptions {
  /** How many checkpoints are kept, including the new one; default 3, `Infinity` for all. */
  readonly keep?: number;
}

/** The result of {@link saveCheckpoint}. */
export interface SavedCheckpoint {
  /** Absolute path of the file. */
  readonly path: string;
  /** Size of the file in bytes. */
  readonly bytes: number;
  /** Absolute paths of the older checkpoints that were removed. */
  readonly removed: readonly string[];
  /** Problems that do not affect the checkpoint, as sentences for the user. */
  readonly warnings: readonly string[];
}

const formatVersion = 2;
const infoKey = "heddle.checkpoint";
const hashKey = "heddle.sha256";
const hashMark = Buffer.from(`"${hashKey}":"`);
const hashDigits = 64;

/**
 * Commits a checkpoint to `folder`, which is created if missing, then removes the oldest checkpoints beyond `keep`. Only one process
 * of a run may call this function, one call at a time.
 *
 * @throws HeddleError `disk` if the disk has no room; the folder is then unchanged
 */
export async function saveCheckpoint(
  folder: string,
  state: CheckpointState,
  options: SaveCheckpointOptions = {},
): Promise<SavedCheckpoint> {
  const { keep = 3, files = nodeFiles } = options;
  if (keep !== Infinity && (!Number.isSafeInteger(keep) || keep < 1)) {
    throw new HeddleError("checkpoint", `keep must be a positive integer or Infinity, got ${keep}`);
  }
  const path = resolve(folder, checkpointFileName(state.step));
  const content = digestedSafetensors(state.tensors, new Map([[infoKey, formatInfo(state)]]));
  await commitFile(path, content, options);
  return { path, bytes: content.bytes, ...(await removeOld(folder, state.step, keep, files)) };
}

async function removeOld(
  folder: string,
  step: number,
  keep: number,
  files: CommitFiles,
): Promise<{ removed: string[]; warnings: string[] }> {
  const removed: string[] = [];
  const warnings: string[] = [];
  try {
    const all = await listCheckpoints(folder, files);
    const later = all.filter((entry) => entry.step > step);
    // Later checkpoints may belong to another run, so they are not removed.
    if (later.length > 0) {
      warnings.push(
        `${resolve(folder)} has checkpoints of later steps than ${step}, up to ${later[0]?.step}: a resume takes the latest`,
      );
    }
    for (const { path } of all.filter((entry) => entry.step <= step).slice(keep)) {
      await files.remove(path);
      removed.push(path);
    }
  } catch (error) {
    warnings.push(`cannot remove old checkpoints from ${resolve(folder)}: ${messageOf(error)}`);
  }
  return { removed, warnings };
}

/** Lists the checkpoints of a folder, newest first, without reading them. Empty if the folder is missing. */
export async function listCheckpoints(
  folder: string,
  files: CommitFiles = nodeFiles,
): Promise<{ readonly step: number; readonly path: string }[]> {
  const names = await files.list(folder).catch((error: unknown) => {
    if (codeOf(error) === "ENOENT") return [];
    throw new HeddleError("file", `cannot read the folder ${resolve(folder)}: ${messageOf(error)}`, { cause: error });
  });
  return names
    .flatMap((name) => {
      const step = checkpointStep(name);
      return step === undefined ? [] : [{ step, path: join(resolve(folder), name) }];
    })
    .sort((left, right) => right.step - left.step);
}

/** The result of {@link latestCheckpoint}. */
export interface LatestCheckpoint {
  /** Undefined if the folder has no checkpoint. */
  readonly checkpoint: Checkpoint | undefined;
  /** A sentence for each damaged checkpoint that was skipped. */
  readonly warnings: readonly string[];
}

/** Options of {@link latestCheckpoint}. */
export interface LatestCheckpointOptions {
  /** Remove half-written files of killed processes; default true. */
  readonly clean?: boolean;
  readonly signal?: AbortSignal;
}

/**
 * Reads the newest undamaged checkpoint of a folder; damaged checkpoints are skipped with a warning. In a run of several
 * processes one process calls this function and sends the path to the others.
 *
 * @throws HeddleError `checkpoint` if all are damaged, `version` if the newest was written by a newer version of Heddle, `file` if one
 * cannot be read
 */
export async function latestCheckpoint(
  folder: string,
  options: LatestCheckpointOptions = {},
): Promise<LatestCheckpoint> {
  const warnings: string[] = [];
  const refused: string[] = [];
  if (options.clean ?? true) warnings.push(...(await cleanCheckpoints(folder)));
  let found = await listCheckpoints(folder);
  for (let index = 0; index < found.length; index++) {
    const { path } = found[index] as { path: string };
    try {
      return { checkpoint: await loadCheckpoint(path, options), warnings };
    } catch (error) {
      if (isDamage(error)) {
        refused.push(messageOf(error));
        warnings.push(`${messageOf(error)}; taking the checkpoint before it`);
      } else if (isMissing(error)) {
        // A running training has removed it meanwhile, after writing a newer one.
        found = await listCheckpoints(folder);
        index = -1;
        warnings.length = 0;
        refused.length = 0;
      } else {
        throw error;
      }
    }
  }
  if (found.length > 0) {
    throw new HeddleError(
      "checkpoint",
      `none of the ${found.length} checkpoints in ${resolve(folder)} can be read:\n  ${refused.join("\n  ")}`,
      { hint: "restore one from a copy, or move them away and start without resume" },
    );
  }
  return { checkpoint: undefined, warnings };
}

/** The small file by which a run tests, before it trains, whether a folder can be written to. */
export const writeTest = "write-test";

/** Removes half-written files of killed processes from a folder. Returns problems, which do no harm, as sentences for the user. */
export async function cleanCheckpoints(
  folder: string,
  options: Pick<StaleOptions, "alone"> = {},
): Promise<readonly string[]> {
  try {
    const only = (name: string): boolean => name === writeTest || checkpointStep(name) !== undefined;
    await removeStaleTemporaries(folder, { ...options, only });
    return [];
  } catch (error) {
    return codeOf(error) === "ENOENT" ? [] : [`cannot remove half-written files: ${messageOf(error)}`];
  }
}

const isMissing = (error: unknown): boolean => error instanceof HeddleError && codeOf(error.cause) === "ENOENT";

/** Whether an error means that this file is damaged, and not that no file can be read. */
function isDamage(error: unknown): boolean {
  if (error instanceof HeddleError && error.code === "file") return codeOf(error.cause) === "EIO";
  return error instanceof HeddleError && ["format", "dtype", "checkpoint"].includes(error.code);
}

/**
 * Reads and verifies a checkpoint.
 *
 * @throws HeddleError `checkpoint` or `format` if the file is damaged or not a checkpoint, `version` if a newer version of Heddle wrote
 * it, `file` if it cannot be read
 */
export async function loadCheckpoint(
  path: string,
  options: { readonly signal?: AbortSignal } = {},
): Promise<Checkpoint> {
  const file = resolve(path);
  const whole = wholeHash();
  const { signal } = options;
  const content = await readSafetensors(file, {
    onBytes: whole.onBytes,
    ...(signal === undefined ? {} : { signal }),
  }).catch((error: unknown) => {
    throw error instanceof HeddleError && error.code === "file" ? unreadable(file, error.cause) : error;
  });
  const { metadata, tensors, verified } = content;
  const info = metadata.get(infoKey);
  const expected = metadata.get(hashKey);
  if (info === undefined || !(verified || expected !== undefined)) throw damaged(file, "it was not written by Heddle");
  if (!verified && !whole.is(expected as string)) throw damaged(file, "its content does not match its SHA-256");
  return { path: file, tensors, ...parseInfo(info, file) };
}

/** The hash of format 1: of the whole file, with zeros in the place of the hash. */
function wholeHash(): { onBytes: (bytes: Uint8Array) => void; is: (expected: string) => boolean } {
  const hash = createHash("sha256");
  let take = (header: Uint8Array): void => {
    const copy = Buffer.from(header);
    const start = copy.indexOf(hashMark) + hashMark.length;
    // Without the mark it is of another format, which has no such hash.
    const isOurs = start >= hashMark.length;
    if (isOurs) hash.update(copy.fill("0", start, start + hashDigits));
    take = isOurs ? (bytes) => void hash.update(bytes) : () => {};
  };
  return { onBytes: (bytes) => take(bytes), is: (expected) => hash.digest("hex") === expected };
}

/** The tensors whose names start with `prefix`, such as `params/`, with names without the prefix. */
export function tensorsUnder(tensors: HostTensors, prefix: string): HostTensors {
  const named = [...tensors].filter(([name]) => name.startsWith(prefix));
  return new Map(named.map(([name, tensor]) => [name.slice(prefix.length), tensor]));
}

function damaged(file: string, problem: string): HeddleError {
  return new HeddleError("checkpoint", `${file} is not a whole checkpoint: ${problem}`);
}

function unreadable(file: string, cause: unknown): HeddleError {
  const reason = codeOf(cause) === "ENOENT" ? "no such file" : messageOf(cause);
  return new HeddleError("file", `cannot read the checkpoint ${file}: ${reason}`, { cause });
}

const codeOf = (error: unknown): string | undefined => (error as NodeJS.ErrnoException | undefined)?.code;
const messageOf = (error: unknown): string =>
  error instanceof HeddleError ? error.plain : error instanceof Error ? error.message : String(error);

type Info = Omit<Checkpoint, "path" | "tensors">;

function formatInfo(state: CheckpointState): string {
  const { step, position, seed, key, extra = {} } = state;
  const info: Info = {
    library: version,
    step,
    position: { epoch: position.epoch, step: position.step },
    seed,
    key,
    extra,
  };
  const problem = problemOf(info);
  if (problem !== undefined) throw new HeddleError("checkpoint", `cannot save a checkpoint: ${problem}`);
  return JSON.stringify({ format: formatVersion, ...info }, (name, value: unknown) => {
    // JSON would silently turn the number into null.
    if (typeof value === "number" && !Number.isFinite(value)) {
      throw new HeddleError("checkpoint", `cannot save a checkpoint: extra "${name}" is ${value}`);
    }
    return value;
  });
}

function parseInfo(text: string, file: string): Info {
  let info: unknown;
  try {
    info = JSON.parse(text);
  } catch {
    throw damaged(file, "its description is not JSON");
  }
  if (typeof info !== "object" || info === null) throw damaged(file, "its description is not an object");
  const { format, ...rest } = info as { format?: unknown };
  if (Number.isSafeInteger(format) && (format as number) > formatVersion) {
    const writer = String((rest as Partial<Info>).library ?? "a newer one");
    throw new HeddleError(
      "version",
      `${file} has checkpoint format ${format}, this Heddle (${version}) reads up to ${formatVersion}`,
      {
        hint: `use the Heddle that wrote it: ${writer}`,
      },
    );
  }
  const known = Number.isSafeInteger(format) && (format as number) > 0;
  const problem = known ? problemOf(rest as Partial<Info>) : "it has no format version";
  if (problem !== undefined) throw damaged(file, problem);
  const { library, step, position, seed, key, extra } = rest as Info;
  return { library, step, position: { epoch: position.epoch, step: position.step }, seed, key, extra };
}

/** The first problem of a description; undefined if it is well-formed. Every field is checked, since files are not trusted. */
function problemOf(info: Partial<Info>): string | undefined {
  const isCount = (value: unknown): boolean => Number.isSafeInteger(value) && (value as number) >= 0;
  const isWord = (value: unknown): boolean => isCount(value) && (value as number) < 2 ** 32;
  if (typeof info.library !== "string") return "its library version is not text";
  if (!isCount(info.step)) return `its step is ${String(info.step)}`;
  if (!isCount(info.position?.epoch) || !isCount(info.position?.step)) return "its position is not { epoch, step }";
  if (!isCount(info.seed)) return `its seed is ${String(info.seed)}`;
  if (!Array.isArray(info.key) || !info.key.every(isWord)) return "its key is not a list of 32-bit words";
  if (typeof info.extra !== "object" || info.extra === null || Array.isArray(info.extra))
    return "its extra is not an object";
  return undefined;
}
