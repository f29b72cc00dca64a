/**
 * @module Checkpoints in one file: everything that a run needs to resume with the same bits, as safetensors.
 *
 * Such a checkpoint is `step-00000468.safetensors` in the run's folder. Its tensors are `params/…`, `optimizer/…` and `state/…`; its
 * metadata have the rest (`heddle.checkpoint`, JSON) and a SHA-256 of each tensor and of the header (`io/digests.ts`); in format 1 one
 * of the whole file, computed with zeros in the place of the hash (`heddle.sha256`). The file is committed as in `io/commit.ts`: if the
 * process is killed at any instant, the previous checkpoint or the new one is there, complete. Any tool that reads safetensors can read
 * a checkpoint.
 */
import { createHash } from "node:crypto";
import { resolve } from "node:path";
import type { CommitContent } from "../io/commit.ts";
import { bytesOfHost } from "../io/host-tensors.ts";
import {
  digestedSafetensors,
  type HostTensor,
  type HostTensors,
  openedBy,
  readSafetensors,
} from "../io/safetensors.ts";
import { dtypes } from "../ir/dtype.ts";
import { sizeOf, type TensorType } from "../ir/shape.ts";
import { HeddleError } from "../util/errors.ts";
import { version } from "../util/version.ts";
import { checkedDescription, type Description, onlyFinite, problemOf } from "./description.ts";
import { type Box, sharedRuns, wholeBox } from "./pieces.ts";
import type { OpenCheckpoint } from "./types.ts";

/** The content of a checkpoint. */
export interface CheckpointState extends Omit<Description, "library" | "extra"> {
  /** Copies of the values, named `params/…`, `optimizer/…`, `state/…`. */
  readonly tensors: HostTensors;
  /** Other data as JSON, such as the dataset's description and the history; numbers must be finite. */
  readonly extra?: Description["extra"];
}

const formatVersion = 2;
const infoKey = "heddle.checkpoint";
const hashKey = "heddle.sha256";
const hashMark = Buffer.from(`"${hashKey}":"`);
const hashDigits = 64;

/** The bytes of a checkpoint in one file. @throws HeddleError `checkpoint` if something cannot be kept */
export function checkpointContent({ tensors, extra = {}, ...state }: CheckpointState): CommitContent {
  const info = checkedDescription({ ...state, library: version, extra });
  const text = JSON.stringify({ format: formatVersion, ...info }, onlyFinite);
  return digestedSafetensors(tensors, new Map([[infoKey, text]]));
}

/**
 * Opens a checkpoint in one file; of format 1, whose one hash is of the whole file, everything is read here.
 *
 * @throws HeddleError `checkpoint` or `format` if the file is damaged or not a checkpoint, `version` if a newer version of Heddle wrote
 * it, `file` if it cannot be read
 */
export async function openFileCheckpoint(
  path: string,
  options: { readonly signal?: AbortSignal } = {},
): Promise<OpenCheckpoint> {
  const place = resolve(path);
  const file = await openedBy("checkpoint", place, options).catch((error: unknown) => {
    throw error instanceof HeddleError && error.code === "file" ? unreadable(place, error.cause) : error;
  });
  try {
    const { metadata, verified } = file;
    const info = metadata.get(infoKey);
    const expected = metadata.get(hashKey);
    if (info === undefined || !(verified || expected !== undefined))
      throw damaged(place, "it was not written by Heddle");
    if (!verified) await checkWhole(place, expected as string, options);
    const description = parseInfo(info, place);
    const entries = new Map<string, TensorType>();
    for (const [name, { dtype, shape }] of file.entries) {
      // For the error of a dtype that Heddle lacks.
      if (dtype === undefined) await file.read(name);
      else entries.set(name, { dtype, shape });
    }
    return new FileCheckpoint(place, description, entries, file);
  } catch (error) {
    await file.close();
    throw error;
  }
}

class FileCheckpoint implements OpenCheckpoint {
  readonly path: string;
  readonly description: Description;
  readonly entries: ReadonlyMap<string, TensorType>;
  private readonly file: Awaited<ReturnType<typeof openedBy>>;
  /** The value that was read last: its boxes are usually read one after another. */
  private last: { readonly name: string; readonly tensor: HostTensor } | undefined;

  constructor(
    path: string,
    description: Description,
    entries: ReadonlyMap<string, TensorType>,
    file: Awaited<ReturnType<typeof openedBy>>,
  ) {
    this.path = path;
    this.description = description;
    this.entries = entries;
    this.file = file;
  }

  async read(name: string): Promise<HostTensor> {
    if (this.last?.name !== name) this.last = { name, tensor: await this.file.read(name) };
    return this.last.tensor;
  }

  async readBytes(name: string, box?: Box): Promise<Uint8Array> {
    const tensor = await this.read(name);
    const bytes = bytesOfHost(tensor);
    if (box === undefined) return bytes;
    const elementBytes = dtypes[tensor.dtype].bytes;
    const target = new Uint8Array(sizeOf(box.shape) * elementBytes);
    for (const run of sharedRuns(wholeBox(tensor.shape), box, elementBytes))
      target.set(bytes.subarray(run.from, run.from + run.bytes), run.to);
    return target;
  }

  async verify(): Promise<void> {
    for (const name of this.entries.keys()) await this.file.read(name);
  }

  async close(): Promise<void> {
    this.last = undefined;
    await this.file.close();
  }
}

/** Compares a file with the hash of format 1: of the whole file, with zeros in the place of the hash. */
async function checkWhole(
  path: string,
  expected: string,
  { signal }: { readonly signal?: AbortSignal },
): Promise<void> {
  const hash = createHash("sha256");
  let take = (header: Uint8Array): void => {
    const copy = Buffer.from(header);
    const start = copy.indexOf(hashMark) + hashMark.length;
    hash.update(copy.fill("0", start, start + hashDigits));
    take = (bytes) => void hash.update(bytes);
  };
  await readSafetensors(path, { onBytes: (bytes) => take(bytes), ...(signal === undefined ? {} : { signal }) });
  if (hash.digest("hex") !== expected) throw damaged(path, "its content does not match its SHA-256");
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
  const { code, message } = (cause ?? {}) as NodeJS.ErrnoException;
  const reason = code === "ENOENT" ? "no such file" : (message ?? "it is not a file");
  return new HeddleError("file", `cannot read the checkpoint ${file}: ${reason}`, { cause });
}

function parseInfo(text: string, file: string): Description {
  let info: unknown;
  try {
    info = JSON.parse(text);
  } catch {
    throw damaged(file, "its description is not JSON");
  }
  if (typeof info !== "object" || info === null) throw damaged(file, "its description is not an object");
  const { format, ...rest } = info as { format?: unknown };
  if (Number.isSafeInteger(format) && (format as number) > formatVersion) {
    const writer = String((rest as Partial<Description>).library ?? "a newer one");
    throw new HeddleError(
      "version",
      `${file} has checkpoint format ${format}, this Heddle (${version}) reads up to ${formatVersion}`,
      {
        hint: `use the Heddle that wrote it: ${writer}`,
      },
    );
  }
  const known = Number.isSafeInteger(format) && (format as number) > 0;
  const problem = known ? problemOf(rest as Partial<Description>) : "it has no format version";
  if (problem !== undefined) throw damaged(file, problem);
  return checkedDescription(rest as Description);
}
