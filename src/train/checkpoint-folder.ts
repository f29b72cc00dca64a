/** @module The folder of a training's checkpoints: taken, tested, searched for the checkpoint to resume from. */
import { mkdir, rename, stat } from "node:fs/promises";
import { join } from "node:path";
import { absolutePlace, isLocal, openStorage } from "../checkpoints/drivers.ts";
import { lockFolder } from "../checkpoints/lock.ts";
import { cleanCheckpoints, listCheckpoints, messageOf, Search, writeTest } from "../checkpoints/series.ts";
import { below } from "../checkpoints/storage.ts";
import { manifestName } from "../io/checkpoint-name.ts";
import { type CommitFiles, commitFile, nodeFiles } from "../io/commit.ts";
import { reasons } from "../io/read.ts";
import { HeddleError } from "../util/errors.ts";
import type { Candidates, CheckpointSearch } from "./host-interface.ts";
import type { Settings } from "./options.ts";

/** The folder of a part of the model, below that of the training. */
export const placeBelow = (directory: string, name: string): string => below(absolutePlace(directory), name);

/**
 * Takes the folder of the option `checkpoint` for this run, removes half-written files of killed runs, and tests whether checkpoints can
 * be written there. Rank 0 calls this function.
 *
 * @throws HeddleError `file` if another run writes to the folder, or it cannot be written to; `disk` if checkpoints do not fit
 */
export async function takeFolder(
  { checkpoint: options }: Pick<Settings, "checkpoint">,
  { bytes, reporter, onLock }: CheckpointSearch,
): Promise<void> {
  if (options === undefined) return;
  const { directory } = options;
  const lock = await lockFolder(directory);
  onLock(lock);
  for (const place of [directory, ...Object.keys(options.parts ?? {}).map((name) => placeBelow(directory, name))])
    for (const warning of await cleanCheckpoints(place, { alone: lock.exclusive })) reporter.warn(warning);
  if (isLocal(directory)) await prepareFolder(directory, bytes);
}

/** The checkpoints at `resumeFrom`: a file, a folder of parts, or the folder of a run. Rank 0 calls this function. */
export async function candidates(
  { checkpoint, resumeFrom = "" }: Settings,
  warn: (text: string) => void,
): Promise<Candidates> {
  const found = isLocal(resumeFrom) ? await stat(resumeFrom).catch(() => undefined) : undefined;
  const storage = await openStorage(resumeFrom);
  const isOne = found?.isFile() === true || (await storage.list("")).includes(manifestName);
  if (isOne)
    return {
      next: async () => absolutePlace(resumeFrom),
      refuse: (_path, error) => {
        throw error;
      },
    };
  if (isLocal(resumeFrom) && found === undefined && resumeFrom.endsWith(".safetensors"))
    throw new HeddleError("file", `there is no checkpoint ${absolutePlace(resumeFrom)}`);
  if (isLocal(resumeFrom) && found !== undefined)
    for (const warning of await cleanCheckpoints(resumeFrom)) warn(warning);
  const search = new Search(storage);
  return {
    next: async () => {
      const path = await search.next();
      if (path !== undefined) return path;
      if (resumeFrom !== checkpoint?.directory && isLocal(resumeFrom) && found === undefined)
        throw new HeddleError("checkpoint", `train: resume: there is nothing at ${absolutePlace(resumeFrom)}`);
      warn(`no checkpoint in ${absolutePlace(resumeFrom)} yet: starting at the beginning`);
      return undefined;
    },
    refuse: (path, error) => search.refuse(path, error),
  };
}

/** Moves the checkpoints of an earlier run to a subfolder, so that the new run neither mixes with them nor removes them. */
export async function setAside(directory: string, warn: (text: string) => void): Promise<void> {
  const earlier = await listCheckpoints(directory);
  if (earlier.length === 0) return;
  if (!isLocal(directory))
    throw new HeddleError("checkpoint", `there are checkpoints of an earlier run at ${absolutePlace(directory)}`, {
      hint: "resume that run, or choose another place: an object store cannot move them aside",
    });
  let number = 1;
  while (await exists(join(directory, `earlier-${number}`))) number++;
  const folder = join(absolutePlace(directory), `earlier-${number}`);
  await mkdir(folder);
  for (const { path, name } of earlier) await rename(path, join(folder, name));
  const what = earlier.length === 1 ? "the checkpoint" : `the ${earlier.length} checkpoints`;
  warn(`moved ${what} of an earlier run to ${folder}`);
}

const exists = (path: string): Promise<boolean> =>
  stat(path).then(
    () => true,
    () => false,
  );

/**
 * Tests before a training whether its checkpoints can be written: creates the folder, writes a small file there and
 * removes it.
 *
 * @param bytes size of a checkpoint
 * @throws HeddleError `disk` if the disk has no room, `file` if the folder cannot be created or written to.
 */
async function prepareFolder(
  directory: string,
  bytes: number,
  options: { readonly files?: CommitFiles } = {},
): Promise<void> {
  const { files = nodeFiles } = options;
  const path = join(absolutePlace(directory), writeTest);
  try {
    await commitFile(path, { bytes, chunks: [Uint8Array.of(0)] }, { files });
    await files.remove(path);
  } catch (error) {
    if (error instanceof HeddleError) throw error;
    const code = (error as NodeJS.ErrnoException).code ?? "";
    throw new HeddleError(
      "file",
      `checkpoints cannot be written to ${absolutePlace(directory)}: ${reasons[code] ?? messageOf(error)}`,
      {
        hint: "give checkpoint.directory a folder that this user may write to",
        cause: error,
      },
    );
  }
}
