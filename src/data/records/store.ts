/** @module Records on disk as columns of numbers: a dataset of any size, with exact shuffles, made once and used again. */
import { createHash, randomBytes } from "node:crypto";
import { type FileHandle, link, mkdir, open, readdir, readFile, rename, rm } from "node:fs/promises";
import { hostname } from "node:os";
import { join, resolve } from "node:path";
import { type DType, dtypes, isDType } from "../../ir/dtype.ts";
import { formatShape, type Shape, sameShape } from "../../ir/shape.ts";
import { HeddleError } from "../../util/errors.ts";
import { fingerprint } from "../../util/hash.ts";
import { checkOptions, checkPlace } from "../../util/options.ts";
import { isRunning } from "../../util/process.ts";
import { version as library } from "../../util/version.ts";
import type { Column, Transform } from "../column.ts";
import { type Dataset, fromColumns } from "../dataset.ts";
import { fileRanges } from "../file-ranges.ts";
import { columnFromRanges } from "../ranges.ts";
import { type AnyRow, placed } from "./piece.ts";
import { nodeOf, type Records } from "./records.ts";
import { numeric, type ToDatasetOptions } from "./to-dataset.ts";

/** Options of {@link stored}. */
export interface StoredOptions<Row = AnyRow> extends ToDatasetOptions<Row> {
  /** Change it when a function of the chain does: functions are not compared. Default `""`. */
  readonly version?: string;
  /** Ends the reading by throwing the signal's reason. */
  readonly signal?: AbortSignal;
}

/** What is stored, as JSON beside the files. */
interface Manifest {
  readonly heddle: "records 1";
  readonly library: string;
  /** The source and the steps, with the version that users give. */
  readonly of: string;
  readonly length: number;
  readonly columns: readonly {
    readonly name: string;
    readonly dtype: DType;
    readonly shape: Shape;
    readonly file: string;
  }[];
}

/**
 * Writes the records of epoch 0 into a folder, one file for each column, and gives them as a dataset that reads them by the rows of a batch.
 * Memory holds a few pieces. A folder that holds the same records already (the same source with the same content and options, the same
 * steps and version) is used as it is. Files that killed runs of this machine left in the folder are removed.
 *
 * @throws HeddleError `data` for a column that is not of numbers, or whose rows differ in shape; `file` when the folder holds other records
 * or cannot be written
 */
export async function stored<Row extends object>(
  records: Records<Row>,
  folder: string,
  options: StoredOptions<Row> = {},
): Promise<Dataset> {
  checkOptions("stored", options, ["dtypes", "transforms", "name", "version", "signal"]);
  checkPlace("stored", "folder", folder, "folder");
  nodeOf("stored")(records);
  const content = fingerprint(await records.identity("runs"));
  const of = `${records.describe()} ${content} ${JSON.stringify(options.dtypes ?? {})} ${options.version ?? ""}`;
  await removeLeftovers(folder);
  const found = await manifestIn(folder);
  const manifest = found ?? (await write(records, folder, of, options));
  if (manifest.of !== of)
    throw new HeddleError("file", `stored: ${resolve(folder)} holds other records, or their source has changed`, {
      hint: "name another folder, or remove this one",
    });
  const columns = manifest.columns.map(({ name, dtype, shape: inner, file }): Column => {
    const shape = [manifest.length, ...inner];
    const transform = (options.transforms as { readonly [name: string]: Transform } | undefined)?.[name];
    const source = fileRanges("stored", join(folder, file), { shape, dtype, start: 0 });
    return columnFromRanges({ name, shape, dtype, transform }, source);
  });
  return fromColumns(options.name ?? folder, columns);
}

/** The names of files being written say which process writes: its machine, and its number. */
const hostTag = createHash("sha256").update(hostname()).digest("hex").slice(0, 8);
const columnFile = /^column-\d+-[0-9a-f]{8}-[0-9a-f]{8}-\d+\.bin$/;
const unfinished = /^(?:column-\d+|records)-([0-9a-f]{8})-[0-9a-f]{8}-(\d+)\.(?:bin|json)$/;

/** The error of a folder that cannot be used. */
const unusable = (folder: string, cause: NodeJS.ErrnoException): HeddleError => {
  const isFile = cause.code === "ENOTDIR" || cause.code === "EEXIST";
  const problem = isFile ? "it is a file, or lies below one" : cause.message;
  return new HeddleError("file", `stored: cannot use the folder ${resolve(folder)}: ${problem}`, { cause });
};

/** Removes the files that processes of this machine left when they were killed. */
async function removeLeftovers(folder: string): Promise<void> {
  const names = await readdir(folder).catch(() => []);
  const left = names.filter((name) => {
    const [, host, pid] = unfinished.exec(name) ?? [];
    return host === hostTag && !isRunning(Number(pid));
  });
  if (left.length === 0) return;
  // Read after the processes were seen to be gone: what they finished is listed there.
  const used = new Set((await manifestIn(folder))?.columns.map(({ file }) => file));
  for (const name of left) if (!used.has(name)) await rm(join(folder, name), { force: true });
}

async function manifestIn(folder: string): Promise<Manifest | undefined> {
  const path = join(folder, "records.json");
  const text = await readFile(path, "utf8").catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return undefined;
    throw unusable(folder, error);
  });
  if (text === undefined) return undefined;
  const malformed = new HeddleError("format", `stored: ${resolve(path)} is not a list of stored columns`, {
    hint: "remove the folder",
  });
  let value: Manifest;
  try {
    value = JSON.parse(text) as Manifest;
  } catch {
    throw malformed;
  }
  const isColumn = (column: Manifest["columns"][number]): boolean =>
    isDType(column?.dtype) &&
    Array.isArray(column.shape) &&
    column.shape.every(Number.isSafeInteger) &&
    columnFile.test(column.file);
  if (value?.heddle !== "records 1" || !Array.isArray(value.columns) || !value.columns.every(isColumn)) throw malformed;
  return value;
}

async function write<Row extends object>(
  records: Records<Row>,
  folder: string,
  of: string,
  options: StoredOptions<Row>,
): Promise<Manifest> {
  const inWords = (error: NodeJS.ErrnoException): never => {
    throw unusable(folder, error);
  };
  await mkdir(folder, { recursive: true }).catch(inWords);
  const own = `${hostTag}-${randomBytes(4).toString("hex")}-${process.pid}`;
  const files: {
    readonly name: string;
    readonly dtype: DType;
    readonly shape: Shape;
    readonly file: string;
    readonly handle: FileHandle;
  }[] = [];
  const removeOwn = async (): Promise<void> => {
    for (const { file } of files) await rm(join(folder, file), { force: true });
  };
  let length = 0;
  try {
    for await (const piece of records.pieces(options.signal === undefined ? {} : { signal: options.signal })) {
      if (piece.length === 0) continue;
      const columns = Object.entries(numeric("stored", piece, options));
      if (files.length === 0)
        for (const [at, [name, { dtype, shape }]] of columns.entries()) {
          const file = `column-${at}-${own}.bin`;
          files.push({
            name,
            dtype,
            shape: shape.slice(1),
            file,
            handle: await open(join(folder, file), "wx").catch(inWords),
          });
        }
      for (const [at, [name, { data, dtype, shape }]] of columns.entries()) {
        const file = files[at];
        if (file?.name !== name || file.dtype !== dtype || !sameShape(file.shape, shape.slice(1)))
          throw new HeddleError(
            "data",
            `stored: ${placed(0, piece.place)}: column "${name}" is ${dtype}${formatShape(shape.slice(1))}, ` +
              `the records before it have "${file?.name}" as ${file?.dtype}${formatShape(file?.shape ?? [])}`,
          );
        await file.handle.appendFile(dtypes[dtype].bytesOf(data)).catch(inWords);
      }
      length += piece.length;
    }
    if (files.length === 0) throw new HeddleError("data", "stored: there are no records");
    for (const { handle } of files) await handle.sync();
  } catch (error) {
    await removeOwn();
    throw error;
  } finally {
    for (const { handle } of files) await handle.close();
  }
  const columns = files.map(({ name, dtype, shape, file }) => ({ name, dtype, shape, file }));
  const manifest: Manifest = { heddle: "records 1", library, of, length, columns };
  const temporary = join(folder, `records-${own}.json`);
  const handle = await open(temporary, "wx").catch(inWords);
  try {
    await handle.writeFile(JSON.stringify(manifest, null, 2));
    await handle.sync();
  } finally {
    await handle.close();
  }
  // The folder holds records from here on. Several may write it at once: the first to end is used by all.
  const isFirst = await named(temporary, join(folder, "records.json"));
  if (isFirst) return manifest;
  await removeOwn();
  return (await manifestIn(folder)) as Manifest;
}

/** Gives a file its name, unless there is a file of that name: then it is removed. Says whether it has the name. */
async function named(temporary: string, path: string): Promise<boolean> {
  try {
    await link(temporary, path);
  } catch (error) {
    // A file system without links: a rename is whole, too, and what another process just wrote stays in use there.
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") {
      await rename(temporary, path);
      return true;
    }
    await rm(temporary);
    return false;
  }
  await rm(temporary);
  return true;
}
