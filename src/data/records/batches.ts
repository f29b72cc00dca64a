/** @module Batches of records: of a size, padded, or of records of similar length. */
import { type Tensor, tensor } from "../../functions/index.ts";
import type { DType } from "../../ir/dtype.ts";
import { HeddleError } from "../../util/errors.ts";
import { type BatchValues, type Collate, checkNames, collate, isHostRows } from "./collate.ts";
import type { Node, Reading } from "./node.ts";
import { type AnyRow, chosen, joined, type Piece } from "./piece.ts";
import { windows } from "./steps.ts";

/** Options of `Records.batch`. */
export interface RecordBatchOptions<Row = AnyRow> {
  /** Leave out the last batch when it is short; with buckets the short batch of each bucket. Default false. */
  readonly dropRemainder?: boolean;
  /** Fills vectors up that are shorter than the longest of their batch. Default: vectors must be equally long. */
  readonly pad?: number;
  /** Leave vectors as a list of arrays, also where they are equally long. Default false. */
  readonly ragged?: boolean;
  /**
   * Dtypes by column; default the dtype of typed arrays, f32 for plain numbers, bool for truth values, i64 for bigints. A value that the
   * dtype does not have is an error; so are whole numbers that f32 cannot hold where no dtype is named.
   */
  readonly dtypes?: { readonly [Name in keyof Row]?: DType };
  /**
   * Batches of records whose vectors in `column` are of similar length: each record goes to the first bound that its length does not
   * exceed, and is padded to the bound.
   */
  readonly buckets?: { readonly column: keyof Row & string; readonly bounds: readonly number[] };
  /** The name of a further column with the lengths of the vectors in `buckets.column` before padding, i32. Default: none. */
  readonly lengths?: string;
}

/** What a column of records is in a batch: a tensor of numbers, or a list. */
export type BatchColumn<Value> = Value extends number | bigint | boolean | ArrayBufferView | readonly number[]
  ? Tensor
  : readonly Value[];

/** A batch of records: a tensor of each numeric column, a list of each other column. */
export type BatchOf<Row> = { readonly [Name in keyof Row]: BatchColumn<Row[Name]> };

/** A batch in ordinary memory. */
export interface HostBatch {
  readonly rows: number;
  readonly columns: { readonly [name: string]: BatchValues };
}

/** Which batches to read. */
export interface ReadBatches {
  /** Counted from 0; default 0. */
  readonly epoch?: number;
  /** The seed of shuffles that have none of their own; default 0. */
  readonly seed?: number;
  /** First batch of the epoch; default 0. */
  readonly from?: number;
  /** Ends the reading by throwing the signal's reason. */
  readonly signal?: AbortSignal;
}

/** Batches of records, read anew for each epoch. */
export class RecordBatches<Row> implements AsyncIterable<BatchOf<Row>> {
  private readonly node: Node;
  private readonly size: number;
  private readonly options: RecordBatchOptions<Row>;

  /** @internal */
  constructor(node: Node, size: number, options: RecordBatchOptions<Row>) {
    this.node = node;
    this.size = size;
    this.options = options;
  }

  /** Number of batches in an epoch; undefined where only reading tells. */
  get length(): number | undefined {
    const { length } = this.node;
    if (length === undefined || this.options.buckets !== undefined) return undefined;
    return this.options.dropRemainder === true ? Math.floor(length / this.size) : Math.ceil(length / this.size);
  }

  [Symbol.asyncIterator](): AsyncGenerator<BatchOf<Row>, void, undefined> {
    return this.epoch();
  }

  /** The batches of an epoch as tensors and lists. The position is one number: pass the batches that were read as `from` to go on. */
  async *epoch(options: ReadBatches = {}): AsyncGenerator<BatchOf<Row>, void, undefined> {
    for await (const { columns } of this.host(options)) {
      const entries = Object.entries(columns).map(([name, values]): [string, unknown] => [
        name,
        isHostRows(values) ? tensor(values.data, { shape: values.shape, dtype: values.dtype }) : values,
      ]);
      yield Object.fromEntries(entries) as BatchOf<Row>;
    }
  }

  /** The batches of an epoch in ordinary memory. */
  async *host({ epoch = 0, seed = 0, from = 0, signal }: ReadBatches = {}): AsyncGenerator<HostBatch, void, undefined> {
    const { dropRemainder = false, buckets, pad, ragged, dtypes, lengths } = this.options;
    const shape: Collate = { pad, ragged, dtypes: dtypes as Collate["dtypes"] };
    const reading: Reading = { epoch, seed, from: buckets === undefined ? from * this.size : 0, signal };
    if (buckets !== undefined) {
      let skip = from;
      for await (const { piece, bound } of inBuckets(this.node.read(reading), this.size, buckets, dropRemainder)) {
        if (skip-- > 0) continue;
        checkNames("batch", "dtypes", dtypes, piece);
        const { [buckets.column]: values = [], ...others } = piece.columns;
        const own = { ...piece, columns: { [buckets.column]: values } };
        const columns = {
          ...collate(own, { ...shape, pad: pad ?? 0, to: bound }),
          ...collate({ ...piece, columns: others }, shape),
        };
        if (lengths !== undefined) columns[lengths] = lengthsOf(values as readonly ArrayLike<number>[]);
        yield { rows: piece.length, columns };
      }
      return;
    }
    for await (const piece of windows(this.node.read(reading), this.size)) {
      signal?.throwIfAborted();
      if (piece.length < this.size && dropRemainder) return;
      checkNames("batch", "dtypes", dtypes, piece);
      yield { rows: piece.length, columns: collate(piece, shape) };
    }
  }
}

const lengthsOf = (values: readonly ArrayLike<number>[]): BatchValues => ({
  shape: [values.length],
  dtype: "i32",
  data: Int32Array.from(values, ({ length }) => length),
});

/** Records of each bound, in batches: a batch comes when its last record does, the short ones at the end. */
async function* inBuckets(
  pieces: AsyncIterable<Piece>,
  size: number,
  { column, bounds }: { readonly column: string; readonly bounds: readonly number[] },
  dropRemainder: boolean,
): AsyncGenerator<{ piece: Piece; bound: number }> {
  const held = bounds.map((): { parts: Piece[]; count: number } => ({ parts: [], count: 0 }));
  for await (const piece of pieces) {
    const values = piece.columns[column];
    if (values === undefined)
      throw new HeddleError("data", `batch: buckets.column names "${column}", which the records do not have`);
    for (let index = 0; index < piece.length; index++) {
      const length = (values[index] as ArrayLike<number> | undefined)?.length;
      const which = bounds.findIndex((bound) => (length as number) <= bound);
      if (length === undefined || which < 0)
        throw new HeddleError(
          "data",
          `batch: ${piece.place?.(index) ?? "a record"}: column "${column}" has ${length ?? "no"} values, the last bound is ${bounds.at(-1)}`,
        );
      const bucket = held[which] as (typeof held)[number];
      bucket.parts.push(chosen(piece, [index]));
      if (++bucket.count < size) continue;
      yield { piece: joined("batch", bucket.parts), bound: bounds[which] as number };
      held[which] = { parts: [], count: 0 };
    }
  }
  if (dropRemainder) return;
  for (const [which, { parts, count }] of held.entries())
    if (count > 0) yield { piece: joined("batch", parts), bound: bounds[which] as number };
}
