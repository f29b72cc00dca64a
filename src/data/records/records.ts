/**
 * @module Records: a lazy, typed chain of steps from a source (a file, a generator, a list) to batches.
 *
 *     const batches = data.csv("people.csv").map(({ age, city }) => ({ x: [age], y: city === "Paris" })).shuffle().batch(32);
 */
import { HeddleError } from "../../util/errors.ts";
import { asRecord, checkInteger, checkNumber, checkOptions } from "../../util/options.ts";
import { shown } from "../../util/show.ts";
import type { ShuffleOptions } from "../dataset.ts";
import { filtered, flatMapped, isRemote, mapped, type OnBad, type RemoteFunction, type RowFunction } from "./apply.ts";
import { RecordBatches, type RecordBatchOptions } from "./batches.ts";
import { type Among, chainIdentity, type Link, plainChain } from "./identity.ts";
import { type Node, type Reading, readPicked } from "./node.ts";
import { type AnyRow, chosen, joined, type Piece, rowsOf } from "./piece.ts";
import { cached, concatenated, prefetched, repeated, shuffled, skipped, taken, zipped } from "./steps.ts";

/** Options of steps that call a function. */
export interface ApplyOptions {
  /**
   * What happens to a record for which the function throws: `"fail"` (default) ends the reading with an error that names the record's
   * place, `"skip"` leaves it out, a function hears of the error and the record is left out.
   */
  readonly onBad?: OnBad;
}

/** Options of `Records.shuffle`. */
export interface RecordShuffleOptions extends ShuffleOptions {
  /** Records that are shuffled together where the source cannot pick records by number; default 10,000. */
  readonly window?: number;
}

/** Which records to read. */
export interface ReadRecords {
  /** Counted from 0; default 0. */
  readonly epoch?: number;
  /** The seed of shuffles that have none of their own; default 0. */
  readonly seed?: number;
  /** The first record; default 0. */
  readonly from?: number;
  /** Ends the reading by throwing the signal's reason. */
  readonly signal?: AbortSignal;
}

const defaultWindow = 10_000;

/**
 * An immutable chain of steps; every method returns a new one, and nothing is read until records or batches are asked for. `Row` is
 * the type of a record. What is read depends on seed, epoch and the record's number alone.
 */
export class Records<Row extends object = AnyRow> implements AsyncIterable<Row> {
  /** The steps, for functions of `data` that take records. @internal */
  readonly node: Node;

  /** @internal */
  constructor(node: Node) {
    this.node = node;
  }

  /** Number of records in an epoch; undefined where only reading tells: `count()` reads. */
  get length(): number | undefined {
    return this.node.length;
  }

  /** Whether records can be picked by number: then a shuffle is one of all orders, and a reading goes on from any record at once. */
  get canPick(): boolean {
    return this.node.pick !== undefined && this.node.length !== undefined;
  }

  /** A record made of each record. `fn` may be async, or run on worker threads: {@link RemoteFunction}. */
  map<Result extends object>(
    fn: RowFunction<Row, Result> | RemoteFunction<Row, Result>,
    options: ApplyOptions = {},
  ): Records<Result> {
    return new Records(mapped(applied("map", this.node, fn, options)));
  }

  /** The records for which `fn` gives true. */
  filter(fn: RowFunction<Row, boolean> | RemoteFunction<Row, boolean>, options: ApplyOptions = {}): Records<Row> {
    return new Records(filtered(applied("filter", this.node, fn, options)));
  }

  /** All records of the list that `fn` makes of each record. */
  flatMap<Result extends object>(
    fn: RowFunction<Row, readonly Result[]> | RemoteFunction<Row, readonly Result[]>,
    options: ApplyOptions = {},
  ): Records<Result> {
    return new Records(flatMapped(applied("flatMap", this.node, fn, options)));
  }

  /** Only these columns. */
  select<Name extends keyof Row & string>(...names: readonly Name[]): Records<Pick<Row, Name>> {
    const only = (piece: Piece): Piece => {
      const lacking = names.find((name) => piece.length > 0 && !Object.hasOwn(piece.columns, name));
      if (lacking !== undefined)
        throw new HeddleError("data", `select: there is no column "${lacking}"`, {
          hint: `the columns are ${Object.keys(piece.columns).join(", ")}`,
        });
      const columns = Object.fromEntries(names.map((name) => [name, piece.columns[name] ?? []]));
      return { ...piece, columns };
    };
    const { node } = this;
    const { pick } = node;
    return new Records({
      chain: [...node.chain, `select ${names.join(" ")}`],
      length: node.length,
      async *read(reading) {
        for await (const piece of node.read(reading)) yield only(piece);
      },
      pick: pick && (async (rows, epoch) => only(await pick(rows, epoch))),
      parts: node.parts,
    });
  }

  /** The first `count` records. */
  take(count: number): Records<Row> {
    checkInteger("take", "count", count, 0);
    return new Records(taken(this.node, count));
  }

  /** All but the first `count` records. */
  skip(count: number): Records<Row> {
    checkInteger("skip", "count", count, 0);
    return new Records(skipped(this.node, count));
  }

  /**
   * Another order in each epoch. Where the source can pick records by number it is one of all orders; else parts of the source (files, row
   * groups) come in another order, and records are shuffled in windows of those that are read.
   */
  shuffle(options: RecordShuffleOptions = {}): Records<Row> {
    checkOptions("shuffle", options, ["seed", "reshuffle", "window"]);
    const { seed, reshuffle = true, window = defaultWindow } = options;
    if (seed !== undefined) checkInteger("shuffle", "seed", seed, 0);
    checkInteger("shuffle", "window", window, 1);
    const ordinal =
      1024 * this.node.chain.filter((step) => typeof step === "string" && step.startsWith("shuffle")).length;
    return new Records(shuffled(this.node, { seed, reshuffle, window, ordinal }));
  }

  /** Several times the records in an epoch, each time in another order if they are shuffled. */
  repeat(times: number): Records<Row> {
    checkInteger("repeat", "times", times, 1);
    return new Records(repeated(this.node, times));
  }

  /** These records, then those of the others. */
  concat(...others: readonly Records<Row>[]): Records<Row> {
    return new Records(concatenated([this, ...others].map(nodeOf("concat"))));
  }

  /** Records with the columns of both; the shorter ends. */
  zip<Other extends object>(other: Records<Other>): Records<Row & Other> {
    return new Records(zipped([this, other].map(nodeOf("zip"))));
  }

  /** Keeps the records in memory once they were read: later epochs read nothing. */
  cache(): Records<Row> {
    return new Records(cached(this.node));
  }

  /** Reads all records into memory now: their number is known then, and they can be picked. */
  async load(options: { readonly signal?: AbortSignal } = {}): Promise<Records<Row>> {
    const whole = await this.whole(options);
    const cut = (rows: ArrayLike<number>): Promise<Piece> => Promise.resolve(chosen(whole, rows));
    return new Records(pickedNode([...this.node.chain, "load"], whole.length, cut));
  }

  /** Reads pieces ahead of the step that takes them; default 2. */
  prefetch(count = 2): Records<Row> {
    checkInteger("prefetch", "count", count, 1, 1024);
    return new Records(prefetched(this.node, count));
  }

  /** Batches of `size` records. @throws HeddleError `option` for options that do not fit each other */
  batch(size: number, options: RecordBatchOptions<Row> = {}): RecordBatches<Row> {
    checkOptions("batch", options, ["dropRemainder", "pad", "ragged", "dtypes", "buckets", "lengths"]);
    checkInteger("batch", "size", size, 1);
    const { buckets, pad, ragged, lengths } = options;
    if (pad !== undefined) checkNumber("batch", "pad", pad);
    if (ragged === true && pad !== undefined)
      throw new HeddleError("option", "batch: pad and ragged exclude each other");
    if (buckets === undefined && lengths !== undefined)
      throw new HeddleError("option", "batch: lengths is the column of the lengths of buckets.column; pass buckets");
    if (options.dtypes !== undefined) asRecord("batch: dtypes", options.dtypes);
    if (buckets !== undefined) {
      checkOptions("batch: buckets", buckets, ["column", "bounds"]);
      if (typeof buckets.column !== "string" || !Array.isArray(buckets.bounds) || buckets.bounds.length === 0)
        throw new HeddleError("option", `batch: buckets must be { column, bounds: [...] }, got ${shown(buckets)}`);
    }
    buckets?.bounds.forEach((bound, at) => {
      checkInteger("batch", `buckets.bounds[${at}]`, bound, at === 0 ? 1 : (buckets.bounds[at - 1] as number) + 1);
    });
    return new RecordBatches(this.node, size, options);
  }

  [Symbol.asyncIterator](): AsyncGenerator<Row, void, undefined> {
    return this.read();
  }

  /** The records of an epoch. */
  async *read(options: ReadRecords = {}): AsyncGenerator<Row, void, undefined> {
    for await (const piece of this.pieces(options)) yield* rowsOf(piece) as Row[];
  }

  /** The records of an epoch, some at once, as values by column. */
  pieces({ epoch = 0, seed = 0, from = 0, signal }: ReadRecords = {}): AsyncIterable<Piece> {
    return this.node.read({ epoch, seed, from, signal } satisfies Reading);
  }

  /** All records of epoch 0. */
  async toArray(): Promise<Row[]> {
    const rows: Row[] = [];
    for await (const row of this) rows.push(row);
    return rows;
  }

  /** Number of records; reads them where that is not known. */
  async count(): Promise<number> {
    if (this.length !== undefined) return this.length;
    let count = 0;
    for await (const { length } of this.pieces()) count += length;
    return count;
  }

  /** The source and the steps as text, for messages. */
  describe(): string {
    return plainChain(this.node.chain);
  }

  /** The source, its options and what it holds now, and the steps; functions are not compared. @internal */
  identity(among: Among): Promise<string> {
    return chainIdentity(this.node.chain, among);
  }

  /** All records of epoch 0 as one piece. @internal */
  async whole({ signal }: { readonly signal?: AbortSignal } = {}): Promise<Piece> {
    const pieces: Piece[] = [];
    for await (const piece of this.pieces(signal === undefined ? {} : { signal })) pieces.push(piece);
    return joined("records", pieces);
  }
}

function applied(what: string, node: Node, fn: unknown, options: ApplyOptions): Parameters<typeof mapped>[0] {
  checkOptions(what, options, ["onBad"]);
  const { onBad = "fail" } = options;
  if (typeof fn !== "function" && !isRemote(fn))
    throw new HeddleError("argument", `${what}: takes a function of a record, got ${shown(fn)}`);
  if (onBad !== "fail" && onBad !== "skip" && typeof onBad !== "function")
    throw new HeddleError("option", `${what}: onBad must be "fail", "skip" or a function, got ${shown(onBad)}`);
  return { what, node, fn: fn as RowFunction<AnyRow, unknown>, onBad };
}

/** The steps of records. @throws HeddleError `argument` for another value */
export const nodeOf =
  (what: string) =>
  (records: unknown): Node => {
    if (records instanceof Records) return records.node;
    throw new HeddleError("argument", `${what}: takes records, got ${shown(records)}`);
  };

/** A node that picks its records. */
export const pickedNode = (chain: readonly Link[], length: number, pick: NonNullable<Node["pick"]>): Node => ({
  chain,
  length,
  pick,
  read: (reading) => readPicked(pick, length, reading),
});
