/** @module Files as matrices of `heddle/matrix`, of which workers that compute together read their own rows. */
import { ownRows } from "../matrix/distributed/workers.ts";
import { type Matrix, rowBlocks } from "../matrix/index.ts";
import { readFileValue } from "../script/files.ts";
import { asMatrix } from "../script/values.ts";
import { HeddleError } from "../util/errors.ts";
import { checkOptions } from "../util/options.ts";
import { shown } from "../util/show.ts";
import { npyColumn } from "./npy.ts";

/** Options of {@link readMatrix}. */
export interface ReadMatrixOptions {
  /** Whether the first line of a csv file has names. Default false, or what the file `PATH.mtd` says. */
  readonly header?: boolean;
  /** What is between the fields of a csv file. Default a comma, or what the file `PATH.mtd` says. */
  readonly separator?: string;
}

/**
 * A matrix of f64 from a file: npy (by its name; one or two dims, row by row), csv, Matrix Market, libsvm, or lines of row, column and value;
 * what a file `PATH.mtd` says about it counts. After `connect()` of `heddle/matrix`, each worker reads its own rows of a large csv or npy file.
 *
 * @throws HeddleError `file`; `format` for a malformed file, with the line; `shape` for more than two dims
 */
export async function readMatrix(path: string, options: ReadMatrixOptions = {}): Promise<Matrix> {
  if (typeof path !== "string") throw new HeddleError("argument", `readMatrix: takes a path, got ${shown(path)}`);
  checkOptions("readMatrix", options, ["header", "separator"]);
  if (path.endsWith(".npy")) return npyMatrix(path);
  const said = { format: undefined, dataType: undefined, valueType: undefined, rows: undefined, columns: undefined };
  return asMatrix(
    readFileValue(path, { ...said, header: options.header, separator: options.separator, schema: undefined }),
  );
}

async function npyMatrix(path: string): Promise<Matrix> {
  const { shape, read } = await npyColumn("x", path);
  if (shape.length > 2)
    throw new HeddleError("shape", `readMatrix: ${path} has ${shape.length} dims; a matrix has two`);
  const [rows, columns = 1] = shape as readonly [number, number?];
  const [from, to] = ownRows([rows, columns]);
  const values = await read?.(Float64Array.from({ length: to - from }, (_unused, index) => from + index));
  const data = Float64Array.from(values as ArrayLike<number | bigint>, Number);
  return rowBlocks([rows, columns], () => data);
}
