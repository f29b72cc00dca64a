/** @module Records on disk as columns of numbers: a dataset of any size, with exact shuffles, made once and used again. */
import { type FileHandle, mkdir, open, readFile, rename, rm } from "node:fs/promises";
import { join, resolve } from "node:path";
import { type DType, dtypes, isDType } from "../../ir/dtype.ts";
import { formatShape, type Shape, sameShape } from "../../ir/shape.ts";
import { HeddleError } from "../../util/errors.ts";
import { checkOptions, checkPlace } from "../../util/options.ts";
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
 * Memory holds a few pieces. A folder that holds the same records already (the same source, steps and version) is used as it is.
 *
 * @throws HeddleError `data` for a column that is not of numbers, or whose rows differ in shape; `file` when the folder holds other records
 */
export async function stored<Row extends object>(
  records: Records<Row>,
  folder: string,
  options: StoredOptions<Row> = {},
): Promise<Dataset> {
  checkOptions("stored", options, ["dtypes", "transforms", "name", "version", "signal"]);
  checkPlace("stored", "folder", folder, "folder");
  nodeOf("stored")(records);
  const of = `${records.describe()} ${JSON.stringify(options.dtypes ?? {})} ${options.version ?? ""}`;
  const found = await manifestIn(folder);
  if (found !== undefined && found.of !== of)
    throw new HeddleError("file", `stored: ${resolve(folder)} holds other records`, {
      hint: "name another folder, or remove this one",
    });
  const manifest = found ?? (await write(records, folder, of, options));
  const columns = manifest.columns.map(({ name, dtype, shape: inner, file }): Column => {
    const shape = [manifest.length, ...inner];
    const transform = (options.transforms as { readonly [name: string]: Transform } | undefined)?.[name];
    const source = fileRanges("stored", join(folder, file), { shape, dtype, start: 0 });
    return columnFromRanges({ name, shape, dtype, transform }, source);
  });
  return fromColumns(options.name ?? folder, columns);
}

async function manifestIn(folder: string): Promise<Manifest | undefined> {
  const path = join(folder, "records.json");
  let text: string;
  try {
    text = await readFile(path, "utf8");
  } catch {
    return undefined;
  }
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
    /^column-\d+-\d+\.bin$/.test(column.file);
  if (value?.heddle !== "records 1" || !Array.isArray(value.columns) || !value.columns.every(isColumn)) throw malformed;
  return value;
}

async function write<Row extends object>(
  records: Records<Row>,
  folder: string,
  of: string,
  options: StoredOptions<Row>,
): Promise<Manifest> {
  await mkdir(folder, { recursive: true });
  const files: {
    readonly name: string;
    readonly dtype: DType;
    readonly shape: Shape;
    readonly file: string;
    readonly handle: FileHandle;
  }[] = [];
  let length = 0;
  try {
    for await (const piece of records.pieces(options.signal === undefined ? {} : { signal: options.signal })) {
      if (piece.length === 0) continue;
      const columns = Object.entries(numeric("stored", piece, options));
      if (files.length === 0)
        for (const [at, [name, { dtype, shape }]] of columns.entries()) {
          const file = `column-${at}-${process.pid}.bin`;
          files.push({ name, dtype, shape: shape.slice(1), file, handle: await open(join(folder, file), "w") });
        }
      for (const [at, [name, { data, dtype, shape }]] of columns.entries()) {
        const file = files[at];
        if (file?.name !== name || file.dtype !== dtype || !sameShape(file.shape, shape.slice(1)))
          throw new HeddleError(
            "data",
            `stored: ${placed(0, piece.place)}: column "${name}" is ${dtype}${formatShape(shape.slice(1))}, ` +
              `the records before it have "${file?.name}" as ${file?.dtype}${formatShape(file?.shape ?? [])}`,
          );
        await file.handle.write(dtypes[dtype].bytesOf(data));
      }
      length += piece.length;
    }
    if (files.length === 0) throw new HeddleError("data", "stored: there are no records");
    for (const { handle } of files) await handle.sync();
  } finally {
    for (const { handle } of files) await handle.close();
  }
  // Workers of a run may write the same folder: the first to end is used by all.
  const earlier = await manifestIn(folder);
  if (earlier?.of === of) {
    await Promise.all(files.map(({ file }) => rm(join(folder, file))));
    return earlier;
  }
  const columns = files.map(({ name, dtype, shape, file }) => ({ name, dtype, shape, file }));
  const manifest: Manifest = { heddle: "records 1", library, of, length, columns };
  // The folder holds records from this rename on: what a kill leaves is written anew.
  const path = join(folder, "records.json");
  const temporary = await open(`${path}.${process.pid}`, "w");
  try {
    await temporary.writeFile(JSON.stringify(manifest, null, 2));
    await temporary.sync();
  } finally {
    await temporary.close();
  }
  await rename(`${path}.${process.pid}`, path);
  return manifest;
}
