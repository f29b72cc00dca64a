/**
 * @module A dataset: an immutable description of columns and of the order in which their rows are read.
 *
 *     const batches = data.mnist("train").shuffle({ seed: 1 }).batch(128);
 *
 * Nothing is read or copied by the chain. The rows of a batch depend on (seed, epoch, step) alone, never on
 * the number of ranks; a rank takes a contiguous part of the global batch.
 */
import { formatShape } from "../ir/shape.ts";
import { HeddleError } from "../util/errors.ts";
import { fingerprint } from "../util/hash.ts";
import { checkOptions } from "../util/options.ts";
import { shown } from "../util/show.ts";
import type { Plain } from "../util/text.ts";
import { type BatchForm, ByLength, checkBounds } from "./by-length.ts";
import {
  type ArrayColumn,
  type Column,
  checkedTransform,
  columnFromArray,
  isColumn,
  type RowIndices,
  type RowRange,
  type Transform,
} from "./column.ts";
import { cutShape } from "./gather.ts";
import { checkCount, largestBatch, largestLength, order, shardSizes } from "./order.ts";

/** Options of {@link Dataset.shuffle}. */
export interface ShuffleOptions {
  /** Default: the seed of the run that reads the dataset. */
  readonly seed?: number;
  /** A new order in each epoch; default true. With false every epoch has the order of epoch 0, which a later `take` or `skip` needs. */
  readonly reshuffle?: boolean;
}

/** Options of {@link Dataset.batch}. */
export interface BatchOptions {
  /** Leave out the last batch when it is short; default false. */
  readonly dropRemainder?: boolean;
}

/** Options of {@link Dataset.batchByLength}. */
export interface BatchByLengthOptions {
  /** The largest length of each bucket, ascending. */
  readonly bounds: readonly number[];
  /** Leave out the last batch of a bucket when it is short; default false. */
  readonly dropRemainder?: boolean;
}

/** Options of {@link Dataset.batchRows}. */
export interface BatchRowsOptions {
  /** The rank whose part of the batch is `local`; default 0. */
  readonly rank?: number;
  /** Number of ranks that share the batch; default 1. */
  readonly ranks?: number;
  /** The run's seed, for a shuffle that has none of its own; default 0. */
  readonly seed?: number;
}

/** The rows of one global batch, and one rank's part of them. */
export interface BatchRows {
  /** Counted from 0. */
  readonly epoch: number;
  /** Batch of the epoch, counted from 0. */
  readonly step: number;
  /** Source rows of the whole batch, in order. */
  readonly rows: RowIndices;
  /** Number of rows of each rank: as even as possible, the first ranks have one more; the sum is `rows.length`. */
  readonly sizes: readonly number[];
  /** Position in the batch of this rank's first row. */
  readonly start: number;
  /** Source rows of this rank: a view of `rows`. */
  readonly local: RowIndices;
  /** The length to which columns of sequences are cut; undefined for batches that are not by length. */
  readonly length?: number;
}

type RowStep =
  | { readonly kind: "skip"; readonly count: number }
  | { readonly kind: "shuffle"; readonly length: number; readonly ordinal: number; readonly options: ShuffleOptions };

interface Description {
  readonly name: string;
  readonly columns: ReadonlyMap<string, Column>;
  readonly steps: readonly RowStep[];
  readonly length: number;
  readonly batchSize: number | undefined;
  readonly dropRemainder: boolean;
  /** The part of each batch that is read; default all of it. */
  readonly part?: { readonly rank: number; readonly ranks: number };
  /** The rows by the lengths of their sequences, and a text by which those lengths are recognised. */
  readonly byLength?: { readonly rows: ByLength; readonly identity: string };
}

/** An immutable dataset; every method returns a new one. Made by `data.fromArrays`, `data.idx` or `data.mnist`. */
export class Dataset {
  // Not a `#` field: deep comparisons would not see it, and take any two datasets for equal.
  private readonly description: Description;

  /** @internal */
  constructor(description: Description) {
    this.description = description;
  }

  /** The dataset's name in messages. */
  get name(): string {
    return this.description.name;
  }

  /** Columns by name, in the order they were given. */
  get columns(): ReadonlyMap<string, Column> {
    return this.description.columns;
  }

  /** Number of rows in an epoch, including the last short batch even with `dropRemainder`. */
  get length(): number {
    return this.description.length;
  }

  /** Number of rows in a global batch; undefined before `batch()`. */
  get batchSize(): number | undefined {
    return this.description.batchSize;
  }

  /** Number of batches in an epoch. Throws before `batch()`. */
  get batchesPerEpoch(): number {
    const { length, dropRemainder, byLength } = this.description;
    const size = this.#batchSize();
    if (byLength !== undefined) return byLength.rows.batches;
    return dropRemainder ? Math.floor(length / size) : Math.ceil(length / size);
  }

  /** The different sizes of global batches in an epoch, largest first: each needs a program of its own. */
  get batchSizes(): readonly number[] {
    return [...new Set(this.batchForms.map(({ rows }) => rows))];
  }

  /**
   * The different kinds of batches of an epoch, most rows first: their rows, and after {@link batchByLength} the length to which columns of
   * sequences are cut.
   */
  get batchForms(): readonly BatchForm[] {
    const { length, dropRemainder, byLength } = this.description;
    const size = this.#batchSize();
    const remainder = dropRemainder ? 0 : length % size;
    const sizes = length < size ? [remainder] : remainder === 0 ? [size] : [size, remainder];
    const { rank, ranks } = this.description.part ?? { rank: 0, ranks: 1 };
    const forms: readonly BatchForm[] = byLength?.rows.forms ?? sizes.map((rows) => ({ rows }));
    return forms.map((form) => ({ ...form, rows: shardSizes(form.rows, ranks)[rank] as number }));
  }

  /** The dataset with columns of sequences cut to a length of {@link batchForms}: a description, for types; its rows are not read. @internal */
  ofLength(length: number | undefined): Dataset {
    if (length === undefined) return this;
    const cut = ({ lengths, ...column }: Column): Column =>
      lengths === undefined ? column : { ...column, shape: cutShape(column.shape, length) };
    const columns = new Map([...this.columns].map(([name, column]) => [name, cut(column)]));
    return new Dataset({ ...this.description, columns });
  }

  /** Reads the rows in random order, which depends on seed and epoch, with a new order in each epoch. Comes before `batch()`. */
  shuffle(options: ShuffleOptions = {}): Dataset {
    checkOptions("shuffle", options, ["seed", "reshuffle"]);
    if (options.seed !== undefined) checkCount("seed", options.seed, Number.MAX_SAFE_INTEGER);
    const { steps, length } = this.description;
    const ordinal = steps.filter((step) => step.kind === "shuffle").length;
    return this.#with("shuffle", { steps: [...steps, { kind: "shuffle", length, ordinal, options: { ...options } }] });
  }

  /**
   * Only the first `count` rows (all rows, if there are fewer). Comes before `batch()`.
   *
   * @throws HeddleError `data` after a shuffle with a new order in each epoch: rows taken and rows skipped would overlap.
   */
  take(count: number): Dataset {
    checkCount("take: count", count, Number.MAX_SAFE_INTEGER);
    this.#checkFixed("take");
    return this.#with("take", { length: Math.min(count, this.length) });
  }

  /** Without the first `count` rows. Comes before `batch()`. @throws as {@link take}. */
  skip(count: number): Dataset {
    checkCount("skip: count", count, Number.MAX_SAFE_INTEGER);
    this.#checkFixed("skip");
    const skipped = Math.min(count, this.length);
    const steps: RowStep[] = [...this.description.steps, { kind: "skip", count: skipped }];
    return this.#with("skip", { steps, length: this.length - skipped });
  }

  /** The same rows with another transform of a column. Comes before `batch()`. */
  transform(name: string, transform: Transform): Dataset {
    const column = this.columns.get(name);
    if (column === undefined) throw new HeddleError("data", `transform: ${this.name} has no column "${name}"`);
    const changed = Object.freeze({ ...column, transform: checkedTransform(name, transform) });
    return this.#with("transform", { columns: new Map([...this.columns, [name, changed]]) });
  }

  /** Groups rows into global batches of `size`; the last may be short. Throws when there is no batch at all. */
  batch(size: number, options: BatchOptions = {}): Dataset {
    checkOptions("batch", options, ["dropRemainder"]);
    checkCount("batch: size", size, largestBatch, 1);
    const dropRemainder = options.dropRemainder ?? false;
    const batched = this.#with("batch", { batchSize: size, dropRemainder });
    if (batched.batchesPerEpoch === 0) {
      const why = dropRemainder ? `no whole batch of ${size}` : "no batch";
      throw new HeddleError("data", `${this.name} has ${this.length} rows: ${why}`);
    }
    return batched;
  }

  /**
   * Groups rows whose sequences are of similar length into global batches of `size`: a row belongs to the first bound that its columns with
   * lengths (`data.padded`) do not exceed, and these columns are cut to that bound. So there are few shapes, each with a program of its own,
   * and little padding. Each row comes once in an epoch. After a shuffle both the rows of a bucket and the batches come in an order that depends on
   * seed and epoch; without one the buckets follow each other. The last batch of each bucket may be short. The lengths of all rows are in memory.
   *
   *     data.fromArrays({ x: data.padded(sentences), y }).shuffle().batchByLength(32, { bounds: [16, 32, 64] })
   *
   * @throws HeddleError `data` without a column with lengths, for a sequence above the last bound, and when there is no batch at all
   */
  batchByLength(size: number, options: BatchByLengthOptions): Dataset {
    checkOptions("batchByLength", options, ["bounds", "dropRemainder"]);
    checkCount("batchByLength: size", size, largestBatch, 1);
    const { bounds, dropRemainder = false } = options;
    checkBounds("batchByLength", bounds);
    const all = [...this.columns.values()].flatMap((column) => (column.lengths === undefined ? [] : [column]));
    if (all.length === 0)
      throw new HeddleError("data", `batchByLength: no column of ${this.name} has lengths`, {
        hint: "make one with data.padded(sequences), or give a padded array its lengths: { shape, data, lengths }",
      });
    const short = all.find(({ shape }) => (shape[1] as number) < (bounds.at(-1) as number));
    if (short !== undefined)
      throw new HeddleError(
        "data",
        `batchByLength: the last bound is ${bounds.at(-1)}, but column "${short.name}" is padded to ${short.shape[1]}`,
        { hint: `let ${short.shape[1]} be the last bound, or pass length: ${bounds.at(-1)} to data.padded` },
      );
    const lengthOf = (row: number): number => Math.max(...all.map(({ lengths }) => lengths?.[row] as number));
    const rows = new ByLength("batchByLength", this.#fixedRows(), lengthOf, {
      bounds: [...bounds],
      batch: size,
      dropRemainder,
    });
    if (rows.batches === 0)
      throw new HeddleError("data", `${this.name} has ${this.length} rows: no whole batch of ${size}`);
    const identity = fingerprint(all.map(({ name, lengths }) => `${name} ${(lengths as Int32Array).join(" ")}`).join());
    return this.#with("batchByLength", { batchSize: size, dropRemainder, byLength: { rows, identity } });
  }

  /** The same batches, of which only the rows of a rank are read, as {@link Dataset.batchRows} shares them. Comes after `batch()`. @internal */
  share(rank: number, ranks: number): Dataset {
    return ranks === 1 ? this : new Dataset({ ...this.description, part: { rank, ranks } });
  }

  /** The source row at position `index` of an epoch. `seed` is the run's, default 0. */
  rowAt(epoch: number, index: number, seed = 0): number {
    return this.#rowFinder(epoch, seed)(index);
  }

  /** The rows of batch `step` of `epoch`, and the part of `rank`. Throws when there is no such batch. */
  batchRows(epoch: number, step: number, options: BatchRowsOptions = {}): BatchRows {
    const { part = { rank: 0, ranks: 1 } } = this.description;
    const { rank = part.rank, ranks = part.ranks, seed = 0 } = options;
    checkCount("epoch", epoch, Number.MAX_SAFE_INTEGER);
    checkCount("step", step, this.batchesPerEpoch - 1);
    checkCount("ranks", ranks, largestBatch, 1);
    checkCount("rank", rank, ranks - 1);
    const { rows: found, length } = this.#batchOf(epoch, step, seed);
    const rows = this.sourceLength > largestBatch ? Float64Array.from(found) : Int32Array.from(found);
    const sizes = shardSizes(rows.length, ranks);
    const start = sizes.slice(0, rank).reduce((sum, size) => sum + size, 0);
    const local = rows.subarray(start, start + (sizes[rank] as number));
    const own = this.description.part === undefined ? rows : local;
    return { epoch, step, rows: own, sizes, start, local, ...(length === undefined ? {} : { length }) };
  }

  /** The source rows of a batch, and the length of its sequences. */
  #batchOf(epoch: number, step: number, seed: number): { readonly rows: readonly number[]; readonly length?: number } {
    const { byLength, steps } = this.description;
    if (byLength !== undefined) {
      const last = steps.findLast((one) => one.kind === "shuffle");
      if (last === undefined) return byLength.rows.epoch(null, 0)(step);
      const { seed: own = seed, reshuffle = true } = last.options;
      return byLength.rows.epoch(own, reshuffle ? epoch : 0)(step);
    }
    const first = step * this.#batchSize();
    const find = this.#rowFinder(epoch, seed);
    const count = Math.min(this.#batchSize(), this.length - first);
    return { rows: Array.from({ length: count }, (_unused, index) => find(first + index)) };
  }

  /** The source rows of an epoch, before any order that changes with it. */
  *#fixedRows(): Generator<number> {
    const { steps } = this.description;
    const fixed = steps.filter((step) => step.kind === "skip" || step.options.reshuffle === false);
    // Which rows there are must not depend on the seed of a run, which is not known here.
    const isChosen = fixed.some(
      (step) => step.kind === "shuffle" && step.length > this.length && step.options.seed === undefined,
    );
    if (isChosen)
      throw new HeddleError("data", "batchByLength: which rows are there depends on the seed of the training", {
        hint: "give the shuffle before take() or skip() a seed of its own: shuffle({ reshuffle: false, seed: 1 })",
      });
    const find = new Dataset({ ...this.description, steps: fixed }).#rowFinder(0, 0);
    for (let index = 0; index < this.length; index++) yield find(index);
  }

  /** Reads every column that is in memory as a whole, and is not there yet. Optional: gathering rows reads columns, too. */
  async load(): Promise<void> {
    const whole = [...this.columns.values()].filter((column) => column.read === undefined);
    await Promise.all(whole.map((column) => column.load()));
  }

  /**
   * The description as plain data. Checkpoints store it, to refuse a resume with other rows or batches.
   * `seed` is the run's, default 0.
   */
  describe(seed = 0): { readonly [key: string]: Plain } {
    const { name, steps, length, batchSize, dropRemainder, byLength } = this.description;
    const columns = [...this.columns.values()].map(
      (column) => `${column.name} ${column.dtype}${formatShape(column.shape)}`,
    );
    const chain = steps.map((step) =>
      step.kind === "skip"
        ? `skip ${step.count}`
        : `shuffle ${step.length} seed ${step.options.seed ?? seed}${step.options.reshuffle === false ? " once" : ""}`,
    );
    const lengths = byLength && { bounds: byLength.rows.options.bounds, lengths: byLength.identity };
    return { name, columns, chain, length, batchSize: batchSize ?? null, dropRemainder, ...lengths };
  }

  /** Number of rows of the columns. */
  get sourceLength(): number {
    const [column] = this.columns.values();
    return column?.shape[0] as number;
  }

  /** The rows of the columns that the dataset can come to, whatever the order: all from `first` on, `count` of them. */
  get sourceRows(): RowRange {
    const { steps, length } = this.description;
    const ordered = steps.findIndex((step) => step.kind === "shuffle");
    const fixed = ordered < 0 ? steps : steps.slice(0, ordered);
    const first = fixed.reduce((sum, step) => sum + (step.kind === "skip" ? step.count : 0), 0);
    const shuffled = steps[ordered];
    return { first, count: shuffled?.kind === "shuffle" ? shuffled.length : length };
  }

  /** Whether the rows have another order in each epoch. */
  get reshuffles(): boolean {
    return this.description.steps.some((step) => step.kind === "shuffle" && step.options.reshuffle !== false);
  }

  /** Refuses an order that changes with the epoch: rows held out in one epoch would be trained on in another. */
  #checkFixed(method: string): void {
    if (!this.reshuffles) return;
    throw new HeddleError("data", `${method}() after shuffle(): ${this.name} has other first rows in each epoch`, {
      hint: `call ${method}() before shuffle(), or split shuffle({ reshuffle: false }) and shuffle the part again`,
    });
  }

  #with(method: string, change: Partial<Description>): Dataset {
    if (this.description.batchSize !== undefined) {
      throw new HeddleError("data", `${method}() after batch(): rows are already grouped`, {
        hint: method === "batch" ? "call batch() once" : `call ${method}() before batch()`,
      });
    }
    return new Dataset({ ...this.description, ...change });
  }

  #batchSize(): number {
    const { batchSize, name } = this.description;
    if (batchSize === undefined) {
      throw new HeddleError("data", `${name} is not batched`, { hint: "add .batch(size) to the dataset" });
    }
    return batchSize;
  }

  /** Maps a position of the epoch to its source row: the steps of the chain, last one first. */
  #rowFinder(epoch: number, seed: number): (index: number) => number {
    checkCount("epoch", epoch, Number.MAX_SAFE_INTEGER);
    const { steps, length, name } = this.description;
    const moves = steps.map((step): ((row: number) => number) => {
      if (step.kind === "skip") return (row) => row + step.count;
      const shuffled = order(
        step.options.seed ?? seed,
        step.options.reshuffle === false ? 0 : epoch,
        step.length,
        step.ordinal,
      );
      return (row) => shuffled.at(row);
    });
    return (index) => {
      if (!Number.isInteger(index) || index < 0 || index >= length) {
        throw new HeddleError("data", `row ${index} of ${name} is not in [0, ${length})`);
      }
      return moves.reduceRight((row, move) => move(row), index);
    };
  }
}

/** A dataset over columns of equally many rows. Throws when there are no columns, or their numbers of rows differ. */
export function fromColumns(name: string, columns: readonly Column[]): Dataset {
  if (!Array.isArray(columns) || !columns.every(isColumn))
    throw new HeddleError("argument", `fromColumns: takes a name and an array of columns, got ${shown(columns)}`, {
      hint: "columnFromArray and columnFromLoader make columns; fromArrays takes arrays by name",
    });
  const first = columns[0];
  if (first === undefined) throw new HeddleError("data", `${name} has no columns`);
  const length = first.shape[0] as number;
  for (const column of columns) {
    if (column.shape[0] !== length) {
      throw new HeddleError(
        "shape",
        `columns of ${name} differ in rows: "${first.name}" has ${length}, "${column.name}" has ${column.shape[0]}`,
      );
    }
  }
  checkCount(`rows of ${name}`, length, largestLength);
  const byName = new Map(columns.map((column) => [column.name, column]));
  if (byName.size !== columns.length) throw new HeddleError("data", `two columns of ${name} have the same name`);
  return new Dataset({ name, columns: byName, steps: [], length, batchSize: undefined, dropRemainder: false });
}

/**
 * A dataset over arrays in memory, which must not be changed afterwards.
 *
 *     data.fromArrays({ x: { shape: [4, 2], data: new Float32Array(8) }, y: { shape: [4], data: new Int32Array(4) } })
 */
export function fromArrays(
  columns: { readonly [name: string]: ArrayColumn },
  options: { readonly name?: string } = {},
): Dataset {
  checkOptions("fromArrays", options, ["name"]);
  if (typeof columns !== "object" || columns === null) {
    throw new HeddleError("data", `fromArrays: takes columns by name, got ${shown(columns)}`);
  }
  const entries = Object.entries(columns).map(([name, column]) => columnFromArray(name, column));
  return fromColumns(options.name ?? "arrays", entries);
}
