/** @module Weights by name, in any file that holds some: safetensors, checkpoints of a training, npz, and PyTorch's state dicts. */
import { readdir, stat } from "node:fs/promises";
import { join, resolve } from "node:path";
import type { HostTensor } from "../ir/node.ts";
import { HeddleError } from "../util/errors.ts";
import { recognise, recognisedBytes } from "../util/recognise.ts";
import { checkpointFolderStep, checkpointStep, manifestName } from "./checkpoint-name.ts";
import type { Found } from "./fitting.ts";
import { readNpz } from "./npz.ts";
import { checkPath } from "./read.ts";
import { readRange } from "./read-file.ts";
import { type HostTensors, openedBy, type SafetensorsMetadata } from "./safetensors.ts";
import { openTorch } from "./torch.ts";
import { openSource } from "./zip.ts";

/** An open file of weights. */
export interface WeightsFile {
  /** The path of the file; for a folder of checkpoints the path of the newest checkpoint. */
  readonly path: string;
  readonly entries: ReadonlyMap<string, Found>;
  readonly metadata: SafetensorsMetadata;
  read(name: string): Promise<HostTensor>;
  close(): Promise<void>;
}

/**
 * Opens a file of weights, or takes tensors that were read already. @throws HeddleError `file` when the file cannot be
 * read, `format` when it has none of these formats.
 */
export async function openWeights(what: string, source: string | HostTensors): Promise<WeightsFile> {
  if (source instanceof Map) return inMemory("the map of tensors", source);
  checkPath(what, source);
  const path = await newestIn(what, source as string);
  for (const open of folders) {
    const values = await open(path);
    if (values !== undefined) return withoutGroups(path, values);
  }
  const kind = recognise(await readRange(what, path, 0, recognisedBytes));
  return kind === "zip" ? openArchive(what, path) : openSafe(what, path);
}

const inMemory = (path: string, tensors: HostTensors): WeightsFile => ({
  path,
  metadata: new Map(),
  entries: tensors,
  read: async (name) => tensors.get(name) as HostTensor,
  close: async () => undefined,
});

/** Values by name that are in several files, as a checkpoint in parts is. */
export interface ValuesInFolder extends Pick<WeightsFile, "read" | "close"> {
  readonly entries: ReadonlyMap<string, Found>;
  readonly metadata?: SafetensorsMetadata;
}

const folders: ((path: string) => Promise<ValuesInFolder | undefined>)[] = [];

/** Adds a kind of folder with values: `open` gives undefined for a path that is none. */
export function registerFolder(open: (path: string) => Promise<ValuesInFolder | undefined>): void {
  folders.push(open);
}

/** The checkpoint of the latest step where the path is a folder, else the path. */
async function newestIn(what: string, path: string): Promise<string> {
  const isFolder = await stat(path).then(
    (found) => found.isDirectory(),
    () => false,
  );
  if (!isFolder) return path;
  const names = await readdir(path);
  if (names.includes(manifestName)) return path;
  const steps: [number, string][] = [];
  for (const name of names) {
    const inParts = checkpointFolderStep(name);
    const step = inParts ?? checkpointStep(name);
    // A folder that a killed run left unfinished has no manifest.
    const isWhole = inParts === undefined || (await readdir(join(path, name))).includes(manifestName);
    if (step !== undefined && isWhole) steps.push([step, name]);
  }
  const [newest] = steps.sort(([left], [right]) => right - left);
  if (newest !== undefined) return join(path, newest[1]);
  throw new HeddleError("file", `${what}: cannot read ${resolve(path)}: it is a folder`, {
    hint: "there are no checkpoints in it: name a file, or the folder that checkpoint.directory of train names",
  });
}

/** The prefix of the names in a checkpoint. */
const group = /^(params|state|optimizer)[/.]/;

/** Opens a safetensors file. */
const openSafe = async (what: string, path: string): Promise<WeightsFile> =>
  withoutGroups(path, await openedBy(what, path));

/**
 * Names of a checkpoint, and of variables that `saveTensors` wrote, lose their prefix; the state of the optimizer is left out.
 */
function withoutGroups(path: string, file: ValuesInFolder): WeightsFile {
  const names = [...file.entries.keys()];
  const inGroups = names.length > 0 && names.every((name) => group.test(name));
  const wanted = inGroups ? names.filter((name) => !name.startsWith("optimizer")) : names;
  const fileNames = new Map(wanted.map((name) => [inGroups ? name.replace(group, "") : name, name]));
  return {
    path,
    metadata: file.metadata ?? new Map(),
    entries: new Map([...fileNames].map(([name, inFile]) => [name, file.entries.get(inFile) as Found])),
    read: (name) => file.read(fileNames.get(name) as string),
    close: () => file.close(),
  };
}

async function openArchive(what: string, path: string): Promise<WeightsFile> {
  const source = await openSource(what, path, { file: path, format: "PyTorch or npz" });
  try {
    const torch = await openTorch(source, path);
    if (torch !== undefined) return { ...torch, path, metadata: new Map(), close: () => source.close() };
    const arrays = await readNpz(path);
    await source.close();
    return inMemory(path, new Map(Object.entries(arrays)));
  } catch (error) {
    await source.close();
    throw error;
  }
}
