/** @module The checkpoints of a run in one place: listed, cleaned, the newest that verifies, and those that are kept. */
import { checkpointFileName, checkpointFolderStep, checkpointStep, manifestName } from "../io/checkpoint-name.ts";
import { type CommitOptions, nodeFiles, removeStaleTemporaries, type StaleOptions } from "../io/commit.ts";
import { HeddleError } from "../util/errors.ts";
import { absolutePlace, isLocal, openStorage } from "./drivers.ts";
import { type CheckpointState, checkpointContent } from "./file.ts";
import { localStorage } from "./local.ts";
import { type Checkpoint, loadCheckpoint, type OpenOptions, stepProblem } from "./open.ts";
import { removeParts } from "./parts.ts";
import { Ages, type Retention, superfluous } from "./retention.ts";
import { below, type Storage } from "./storage.ts";
import type { ListedCheckpoint } from "./types.ts";

/** Options of {@link saveCheckpoint}. */
export interface SaveCheckpointOptions extends CommitOptions {
  /** How many checkpoints are kept, including the new one; default 3, `Infinity` for all. */
  readonly keep?: number;
  /** What else is kept; `newest` is `keep`. */
  readonly also?: Omit<Retention, "newest">;
  /** What is known of the checkpoints that are there, from earlier saves. */
  readonly ages?: Ages;
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

/**
 * Commits a checkpoint in one file to `folder`, which is created if missing, then removes the oldest checkpoints beyond `keep`. Only one
 * process of a run may call this function, one call at a time.
 *
 * @throws HeddleError `disk` if the disk has no room; the folder is then unchanged
 */
export async function saveCheckpoint(
  folder: string,
  state: CheckpointState,
  options: SaveCheckpointOptions = {},
): Promise<SavedCheckpoint> {
  const { keep = 3, also, ages, files = nodeFiles } = options;
  if (keep !== Infinity && (!Number.isSafeInteger(keep) || keep < 1)) {
    throw new HeddleError("checkpoint", `keep must be a positive integer or Infinity, got ${keep}`);
  }
  const storage = localStorage(folder, files);
  const name = checkpointFileName(state.step);
  const content = checkpointContent(state);
  await storage.write(name, content, options);
  return {
    path: below(storage.place, name),
    bytes: content.bytes,
    ...(await removeOld(storage, state.step, { newest: keep, ...also }, ages)),
  };
}

/** Removes the checkpoints up to a step that need not be kept. */
export async function removeOld(
  storage: Storage,
  step: number,
  retention: Retention,
  ages = new Ages(),
): Promise<{ removed: string[]; warnings: string[] }> {
  const removed: string[] = [];
  const warnings: string[] = [];
  try {
    const all = await listIn(storage);
    const later = all.filter((entry) => entry.step > step);
    // Later checkpoints may belong to another run, so they are not removed.
    if (later.length > 0) {
      warnings.push(
        `${storage.place} has checkpoints of later steps than ${step}, up to ${later[0]?.step}: a resume takes the latest`,
      );
    }
    const own = all.filter((entry) => entry.step <= step);
    for (const entry of superfluous(await ages.of(storage, own, retention), retention)) {
      await removeCheckpoint(storage, entry);
      removed.push(entry.path);
    }
  } catch (error) {
    warnings.push(`cannot remove old checkpoints from ${storage.place}: ${messageOf(error)}`);
  }
  return { removed, warnings };
}

/** Removes a checkpoint. */
export const removeCheckpoint = (storage: Storage, { name, inParts }: ListedCheckpoint): Promise<void> =>
  inParts ? removeParts(storage, name) : storage.remove(name);

/**
 * Lists the checkpoints of a folder (or the address of one), newest first, without reading them. Empty if the folder is missing.
 */
export async function listCheckpoints(folder: string): Promise<readonly ListedCheckpoint[]> {
  return listIn(await openStorage(folder));
}

/** The checkpoints in a place, newest first. A folder without a manifest is none. */
export const listIn = async (storage: Storage): Promise<ListedCheckpoint[]> => (await stepsIn(storage)).checkpoints;

/** What is in a place: checkpoints, and folders of steps that have no manifest, each newest first. */
export async function stepsIn(
  storage: Storage,
): Promise<{ readonly checkpoints: ListedCheckpoint[]; readonly unfinished: ListedCheckpoint[] }> {
  const checkpoints: ListedCheckpoint[] = [];
  const unfinished: ListedCheckpoint[] = [];
  for (const name of await storage.list("")) {
    const folderStep = checkpointFolderStep(name);
    const step = folderStep ?? checkpointStep(name);
    if (step === undefined) continue;
    const isWhole = folderStep === undefined || (await storage.list(name)).includes(manifestName);
    const found = { step, name, path: below(storage.place, name), inParts: folderStep !== undefined };
    (isWhole ? checkpoints : unfinished).push(found);
  }
  const newestFirst = (left: ListedCheckpoint, right: ListedCheckpoint): number => right.step - left.step;
  return { checkpoints: checkpoints.sort(newestFirst), unfinished: unfinished.sort(newestFirst) };
}

/** What a folder without a manifest is. */
export const unfinishedProblem = `it has no ${manifestName}, so its save has not finished`;

/** The result of {@link latestCheckpoint}. */
export interface LatestCheckpoint {
  /** Undefined if the folder has no checkpoint. */
  readonly checkpoint: Checkpoint | undefined;
  /** A sentence for each damaged checkpoint that was skipped. */
  readonly warnings: readonly string[];
}

/** Options of {@link latestCheckpoint}. */
export interface LatestCheckpointOptions extends OpenOptions {
  /** Remove half-written files of killed processes; default true. */
  readonly clean?: boolean;
}

/**
 * Reads the newest undamaged checkpoint of a folder; damaged checkpoints are skipped with a warning.
 *
 * @throws HeddleError `checkpoint` if all are damaged, `version` if the newest was written by a newer version of Heddle, `file` if one
 * cannot be read
 */
export async function latestCheckpoint(
  folder: string,
  options: LatestCheckpointOptions = {},
): Promise<LatestCheckpoint> {
  const warnings: string[] = [];
  const storage = await openStorage(folder);
  if (options.clean ?? true) warnings.push(...(await cleanCheckpoints(folder)));
  const search = new Search(storage);
  for (let path = await search.next(); path !== undefined; path = await search.next()) {
    try {
      const checkpoint = await loadCheckpoint(path, options);
      const wrong = stepProblem({ path, description: checkpoint });
      if (wrong !== undefined) throw wrong;
      return { checkpoint, warnings };
    } catch (error) {
      const warning = search.refuse(path, error);
      if (warning === undefined) warnings.length = 0;
      else warnings.push(warning);
    }
  }
  return { checkpoint: undefined, warnings };
}

/** Looks for the newest checkpoint that verifies, from the newest on. */
export class Search {
  private readonly storage: Storage;
  private readonly refused = new Map<string, string>();
  private readonly gone = new Set<string>();

  constructor(storage: Storage) {
    this.storage = storage;
  }

  /** The newest checkpoint that was not refused; undefined if there is none. @throws HeddleError `checkpoint` if all were refused */
  async next(): Promise<string | undefined> {
    const found = await listIn(this.storage);
    const left = found.find(({ path }) => !this.refused.has(path) && !this.gone.has(path));
    if (left !== undefined || this.refused.size === 0) return left?.path;
    throw new HeddleError(
      "checkpoint",
      `none of the ${found.length} checkpoints in ${this.storage.place} can be read:\n  ${[...this.refused.values()].join("\n  ")}`,
      { hint: "restore one from a copy, or move them away and start without resume" },
    );
  }

  /**
   * Leaves a checkpoint out that could not be read; the warning for it, or undefined if a running training has removed it meanwhile, after
   * writing a newer one.
   *
   * @throws the error, if it does not mean that this checkpoint is damaged
   */
  refuse(path: string, error: unknown): string | undefined {
    if (isMissing(error)) {
      this.refused.clear();
      this.gone.add(path);
      return undefined;
    }
    if (!isDamage(error)) throw error;
    this.refused.set(path, messageOf(error));
    return `${messageOf(error)}; taking the checkpoint before it`;
  }
}

/** The small file by which a run tests, before it trains, whether a folder can be written to. */
export const writeTest = "write-test";

/**
 * Removes from a folder what killed processes left: half-written files and, if nobody else writes there, folders without a manifest.
 * Returns what was removed or passed over, and problems, which do no harm, as sentences for the user.
 */
export async function cleanCheckpoints(
  folder: string,
  options: Pick<StaleOptions, "alone"> = {},
): Promise<readonly string[]> {
  try {
    const only = (name: string): boolean => name === writeTest || checkpointStep(name) !== undefined;
    if (isLocal(folder)) await removeStaleTemporaries(absolutePlace(folder), { ...options, only });
    const storage = await openStorage(folder);
    const warnings: string[] = [];
    for (const { name, path } of (await stepsIn(storage)).unfinished) {
      if (options.alone === true) await storage.remove(name);
      warnings.push(`${options.alone === true ? "removed" : "passed over"} ${path}: ${unfinishedProblem}`);
    }
    return warnings;
  } catch (error) {
    return codeOf(error) === "ENOENT" ? [] : [`cannot remove half-written files: ${messageOf(error)}`];
  }
}

const isMissing = (error: unknown): boolean =>
  error instanceof HeddleError && codeOf(error.cause) === "ENOENT" && error.code === "file";

/** Whether an error means that this checkpoint is damaged, and not that no file can be read. */
export function isDamage(error: unknown): boolean {
  if (error instanceof HeddleError && error.code === "file") return codeOf(error.cause) === "EIO";
  return error instanceof HeddleError && ["format", "dtype", "checkpoint"].includes(error.code);
}

const codeOf = (error: unknown): string | undefined => (error as NodeJS.ErrnoException | undefined)?.code;

/** The message of an error without line and hint. */
export const messageOf = (error: unknown): string =>
  error instanceof HeddleError ? error.plain : error instanceof Error ? error.message : String(error);
