/** @module From records to datasets, which `train` takes: read into memory, or batch by batch as the training goes on. */
import { type DType, dtypes, type TypedArray } from "../../ir/dtype.ts";
import { formatShape, type Shape, sizeOf } from "../../ir/shape.ts";
import { HeddleError } from "../../util/errors.ts";
import { fingerprint } from "../../util/hash.ts";
import { checkInteger, checkOptions } from "../../util/options.ts";
import { type Column, columnFromArray, type ReadMoment, type RowIndices, type Transform } from "../column.ts";
import { type Dataset, fromColumns } from "../dataset.ts";
import type { HostRows } from "../gather.ts";
import { type Collate, checkNames, collate, isHostRows } from "./collate.ts";
import type { Node } from "./node.ts";
import { type AnyRow, chosen, cut, joined, type Piece, placed, type Values } from "./piece.ts";
import { nodeOf, type Records } from "./records.ts";

/** Options of {@link toDataset} and {@link streamed}. */
export interface ToDatasetOptions<Row = AnyRow> {
  /** Dtypes by column; default f32 for plain numbers, bool for truth values, the dtype of typed arrays. */
  readonly dtypes?: { readonly [Name in keyof Row]?: DType };
  /** What the model sees of a column, by its name, as in `data.fromArrays`. */
  readonly transforms?: { readonly [Name in keyof Row]?: Transform };
  /** The dataset's name in messages; default `"records"`. */
  readonly name?: string;
}

/** Options of {@link toDataset}. */
export interface PaddedDatasetOptions<Row = AnyRow> extends ToDatasetOptions<Row> {
  /**
   * Fills vectors up that are shorter than the longest of their column; the column then has their lengths, for `batchByLength`. Default: the vectors of a
   * column must be equally long.
   */
  readonly pad?: number;
}

/** Reads all records of epoch 0 into the columns of a dataset. @throws HeddleError `data` for a column that is not of numbers */
export async function toDataset<Row extends object>(
  records: Records<Row>,
  options: PaddedDatasetOptions<Row> = {},
): Promise<Dataset> {
  checkOptions("toDataset", options, ["dtypes", "transforms", "name", "pad"]);
  nodeOf("toDataset")(records);
  const piece = await records.whole();
  if (piece.length === 0) throw new HeddleError("data", `toDataset: ${options.name ?? "records"} has no records`);
  const columns = Object.entries(numeric("toDataset", piece, options)).map(([name, { data, shape, dtype }]) =>
    columnFromArray(name, {
      ...{ data, shape, dtype },
      ...transformOf(name, options),
      ...(options.pad === undefined ? {} : lengthsOf(piece.columns[name] as Values, shape)),
    } as never),
  );
  return fromColumns(options.name ?? "records", columns);
}

/** The lengths of vectors that were padded, if there is a second dim of them alone. */
const lengthsOf = (values: Values, shape: Shape): { lengths?: Int32Array } =>
  shape.length === 2 ? { lengths: Int32Array.from(values as ArrayLike<unknown>[], ({ length }) => length) } : {};

const transformOf = (name: string, { transforms }: Pick<ToDatasetOptions, "transforms">): { transform?: Transform } => {
  const byName: { readonly [name: string]: Transform | undefined } = transforms ?? {};
  const transform = Object.hasOwn(byName, name) ? byName[name] : undefined;
  return transform === undefined ? {} : { transform };
};

/** The columns of a piece as arrays. @throws HeddleError `data` for a column that is not of numbers */
export function numeric(what: string, piece: Piece, options: PaddedDatasetOptions): { [name: string]: HostRows } {
  checkNames(what, "dtypes", options.dtypes, piece);
  checkNames(what, "transforms", options.transforms, piece);
  const columns = collate(piece, { dtypes: options.dtypes as Collate["dtypes"], pad: options.pad });
  for (const [name, values] of Object.entries(columns))
    if (!isHostRows(values))
      throw new HeddleError(
        "data",
        `${what}: column "${name}" is not of numbers; its first value is ${JSON.stringify(values[0])}`,
        {
          hint: "make numbers of it with map, or leave it out with select",
        },
      );
  return columns as { [name: string]: HostRows };
}

/** Options of {@link streamed}. */
export interface StreamedOptions<Row = AnyRow> extends ToDatasetOptions<Row> {
  /** Records of an epoch; default the number that the records know. A training stops reading after so many. */
  readonly length?: number;
}

/** Pieces of picked rows that are kept for the other columns of a batch. */
const keptPicks = 4;

/**
 * A dataset whose rows are records, read as batches need them: nothing is kept. Records whose source cannot pick are read in order, so
 * shuffle the records, not the dataset. Each worker reads all records and takes its rows.
 *
 * @throws HeddleError `option` when the number of records is not known and no length is given; `data` for a column that is not of numbers
 */
export async function streamed<Row extends object>(
  records: Records<Row>,
  options: StreamedOptions<Row> = {},
): Promise<Dataset> {
  checkOptions("streamed", options, ["dtypes", "transforms", "name", "length"]);
  const node = nodeOf("streamed")(records);
  const { name = "records", length = node.length } = options;
  if (length === undefined)
    throw new HeddleError(
      "option",
      "streamed: the number of records is not known; pass length, the records of an epoch",
    );
  checkInteger("streamed", "length", length, 0);
  if (node.length !== undefined && length > node.length)
    throw new HeddleError("option", `streamed: length is ${length}, but there are ${node.length} records`);
  const first = await firstPiece(node, name);
  const types = numeric("streamed", first, options);
  const { pick } = node;
  const reader = pick === undefined ? new Cursor(node, name) : new Picker(pick);
  // All columns ask at once: the source is looked at once.
  let asked: Promise<string> | undefined;
  const identity = async (): Promise<string> => {
    asked ??= records.identity("workers").finally(() => {
      asked = undefined;
    });
    return fingerprint(await asked);
  };
  const columns = Object.entries(types).map(([column, { shape, dtype }]): Column => {
    const inner = shape.slice(1);
    const read = async (rows: RowIndices, moment: ReadMoment = { epoch: 0, seed: 0 }): Promise<TypedArray> => {
      if (rows.length === 0) return dtypes[dtype].create(0);
      const piece = await reader.rows(column, rows, moment);
      const own = { ...piece, columns: { [column]: piece.columns[column] ?? [] } };
      const found = collate(own, { dtypes: options.dtypes as Collate["dtypes"] })[column] as HostRows;
      if (found.dtype !== dtype)
        throw new HeddleError(
          "data",
          `${name}: ${placed(0, piece.place)}: column "${column}" is ${found.dtype ?? "not of numbers"}, the first record's ${dtype}`,
          { hint: `pass dtypes: { ${column}: "${dtype}" } if that fits all records` },
        );
      if (found.data?.length !== rows.length * sizeOf(inner))
        throw new HeddleError(
          "data",
          `${name}: column "${column}" has rows of ${formatShape(found.shape?.slice(1) ?? [])}, the first record of ${formatShape(inner)}`,
        );
      return found.data;
    };
    const whole = (): Promise<TypedArray> => read(Float64Array.from({ length }, (_unused, row) => row));
    const { transform } = transformOf(column, options as ToDatasetOptions);
    return Object.freeze({
      name: column,
      shape: [length, ...inner],
      dtype,
      transform,
      load: whole,
      read,
      byEpoch: true,
      identity,
    });
  });
  return fromColumns(name, columns);
}

async function firstPiece(node: Node, name: string): Promise<Piece> {
  for await (const piece of node.read({ epoch: 0, seed: 0, from: 0 })) if (piece.length > 0) return cut(piece, 0, 1);
  throw new HeddleError("data", `streamed: ${name} has no records`);
}

/** Reads rows for the columns of a dataset. */
interface RowReader {
  rows(column: string, rows: RowIndices, moment: ReadMoment): Promise<Piece>;
}

/** Picks the records of a batch once for all columns. */
class Picker implements RowReader {
  private readonly pick: NonNullable<Node["pick"]>;
  private readonly kept: { readonly key: string; readonly piece: Promise<Piece> }[] = [];

  constructor(pick: NonNullable<Node["pick"]>) {
    this.pick = pick;
  }

  rows(_column: string, rows: RowIndices, { epoch, seed }: ReadMoment): Promise<Piece> {
    const key = `${epoch} ${seed} ${rows.join(" ")}`;
    const known = this.kept.find((entry) => entry.key === key);
    if (known !== undefined) return known.piece;
    const piece = this.pick(rows, { epoch, seed });
    piece.catch(() => this.kept.splice(0));
    this.kept.push({ key, piece });
    if (this.kept.length > keptPicks) this.kept.shift();
    return piece;
  }
}

/** Reads the records of an epoch in order, and keeps those that a column may still ask for. */
class Cursor implements RowReader {
  private readonly node: Node;
  private readonly name: string;
  private reader: AsyncIterator<Piece> | undefined;
  private moment = "";
  /** The first record that is kept, and the pieces from there on. */
  private start = 0;
  private held: Piece[] = [];
  private readonly asked = new Map<string, number>();
  private turn: Promise<unknown> = Promise.resolve();

  constructor(node: Node, name: string) {
    this.node = node;
    this.name = name;
  }

  rows(column: string, rows: RowIndices, moment: ReadMoment): Promise<Piece> {
    const result = this.turn.then(() => this.next(column, rows, moment));
    this.turn = result.catch(() => {});
    return result;
  }

  private async next(column: string, rows: RowIndices, { epoch, seed }: ReadMoment): Promise<Piece> {
    for (let at = 1; at < rows.length; at++)
      if ((rows[at] as number) <= (rows[at - 1] as number))
        throw new HeddleError(
          "data",
          `${this.name}: its source cannot pick records by number, so they are read in order`,
          {
            hint: "shuffle the records before data.streamed, not the dataset; or await records.load()",
          },
        );
    const [first, last] = [rows[0] as number, rows[rows.length - 1] as number];
    const moment = `${epoch} ${seed}`;
    if (this.reader === undefined || moment !== this.moment || first < this.start) {
      await this.reader?.return?.();
      this.reader = this.node.read({ epoch, seed, from: first })[Symbol.asyncIterator]();
      [this.moment, this.start, this.held] = [moment, first, []];
      this.asked.clear();
    }
    this.asked.set(column, first);
    const needed = Math.min(...this.asked.values());
    while (this.held.length > 0 && this.start + (this.held[0] as Piece).length <= needed)
      this.start += (this.held.shift() as Piece).length;
    let end = this.start + this.held.reduce((sum, { length }) => sum + length, 0);
    while (end <= last) {
      const { value, done } = await this.reader.next();
      if (done === true) {
        this.reader = undefined;
        throw new HeddleError("data", `${this.name} gave ${end} records in epoch ${epoch}, record ${last} is needed`, {
          hint: "pass length: the records of an epoch",
        });
      }
      this.held.push(value);
      end += value.length;
    }
    const pieces: Piece[] = [];
    let at = 0;
    let start = this.start;
    for (const piece of this.held) {
      const own: number[] = [];
      for (; at < rows.length && (rows[at] as number) < start + piece.length; at++)
        own.push((rows[at] as number) - start);
      if (own.length > 0) pieces.push(chosen(piece, own));
      start += piece.length;
    }
    return joined(this.name, pieces);
  }
}
