/** @module Records of what is in memory or comes from a program: lists, columns, datasets, generators and web streams. */

import type { TypedArray } from "../../ir/dtype.ts";
import { sizeOf } from "../../ir/shape.ts";
import { HeddleError } from "../../util/errors.ts";
import { checkInteger, checkOptions } from "../../util/options.ts";
import { shown } from "../../util/show.ts";
import type { Column } from "../column.ts";
import { Dataset } from "../dataset.ts";
import { hostGather } from "../gather.ts";
import { type Among, hashOf } from "./identity.ts";
import type { Epoch, Node } from "./node.ts";
import { after } from "./node.ts";
import { type AnyRow, pieceOf, type Values } from "./piece.ts";
import { nodeOf, pickedNode, Records } from "./records.ts";
import { mixed } from "./steps.ts";

/** Records of a list, which must not be changed afterwards. */
export function fromRows<Row extends object>(rows: readonly Row[]): Records<Row> {
  if (!Array.isArray(rows)) throw new HeddleError("argument", `fromRows: takes a list of records, got ${shown(rows)}`);
  const place = (index: number): string => `record ${index}`;
  return new Records(
    pickedNode([`rows ${rows.length}`, async () => hashOf(rows)], rows.length, (indices) =>
      Promise.resolve(
        pieceOf(
          "fromRows",
          Array.from(indices, (index) => rows[index] as AnyRow),
          (index) => place(indices[index] as number),
        ),
      ),
    ),
  );
}

/** Records read by a function, anew for each epoch: an async generator, a web stream, a list. */
export function fromGenerator<Row extends object>(
  make: (epoch: Epoch) => AsyncIterable<Row> | Iterable<Row> | ReadableStream<Row>,
  options: { readonly length?: number; readonly name?: string } = {},
): Records<Row> {
  checkOptions("fromGenerator", options, ["length", "name"]);
  if (typeof make !== "function")
    throw new HeddleError("argument", `fromGenerator: takes a function that gives records, got ${shown(make)}`, {
      hint: "a generator is used up after an epoch: pass the function that makes it",
    });
  const { length, name = "generator" } = options;
  if (length !== undefined) checkInteger("fromGenerator", "length", length, 0);
  async function* read(epoch: Epoch) {
    let rows: AnyRow[] = [];
    let first = 0;
    const placed = (start: number) => (index: number) => `${name}, record ${start + index}`;
    for await (const row of make(epoch) as AsyncIterable<AnyRow>) {
      epoch.signal?.throwIfAborted();
      rows.push(row);
      if (rows.length < 64) continue;
      yield pieceOf(name, rows, placed(first));
      first += rows.length;
      rows = [];
    }
    if (rows.length > 0) yield pieceOf(name, rows, placed(first));
    first += rows.length;
    if (length !== undefined && first !== length)
      throw new HeddleError("data", `${name} gave ${first} records, its length is ${length}`);
  }
  return new Records({
    chain: [`${name} of ${length ?? "?"}`],
    length,
    read: ({ from, ...epoch }) => after(read(epoch), from),
  });
}

/** The rows of a dataset's columns as records, without transforms: numbers, and vectors of columns with more dims. */
export function fromDataset<Row extends object = { x: TypedArray; y: number }>(dataset: Dataset): Records<Row> {
  if (!(dataset instanceof Dataset))
    throw new HeddleError("argument", `fromDataset: takes a dataset, got ${shown(dataset)}`);
  const columns = [...dataset.columns.values()];
  const valuesOf = async (column: Column, rows: Float64Array): Promise<Values> => {
    const { data, shape } = await hostGather(column, rows);
    if (shape.length === 1) return data;
    const inner = shape.slice(1);
    const width = sizeOf(inner);
    return Array.from(rows, (_row, at) => Object.assign(data.slice(at * width, (at + 1) * width), { shape: inner }));
  };
  const pick: NonNullable<Node["pick"]> = async (rows, { epoch, seed }) => {
    const found = Float64Array.from(rows, (row) => dataset.rowAt(epoch, row, seed));
    const values = await Promise.all(
      columns.map(async (column) => [column.name, await valuesOf(column, found)] as const),
    );
    return {
      length: rows.length,
      columns: Object.fromEntries(values),
      place: (index) => `${dataset.name}, row ${found[index]}`,
    };
  };
  const contents = (among: Among): Promise<string[]> =>
    Promise.all(
      columns.map(async (column) => {
        const rows = { first: 0, count: dataset.sourceLength };
        return column.identity?.(rows, among === "runs") ?? hashOf(await column.load());
      }),
    );
  return new Records(pickedNode([dataset.describe(), contents], dataset.length, pick));
}

/** Options of {@link mix}. */
export interface MixOptions {
  /** The share of each; default equal shares. */
  readonly weights?: readonly number[];
  /** Records of an epoch; default as many as all have together. */
  readonly length?: number;
  /** Seed of the turns; default the run's. */
  readonly seed?: number;
}

/**
 * Records of several sources in turns, in shares that are exact in each 1,024 records; a source that ends begins again with its next
 * epoch.
 *
 * @throws HeddleError `option` when the lengths are not known, and no length is given
 */
export function mix<Row extends object>(records: readonly Records<Row>[], options: MixOptions = {}): Records<Row> {
  checkOptions("mix", options, ["weights", "length", "seed"]);
  if (!Array.isArray(records) || records.length === 0)
    throw new HeddleError("argument", `mix: takes a list of records, got ${shown(records)}`);
  const nodes = records.map(nodeOf("mix"));
  const { weights = nodes.map(() => 1), seed } = options;
  const lengths = nodes.map(({ length }) => length);
  const length =
    options.length ??
    (lengths.includes(undefined) ? undefined : (lengths as number[]).reduce((sum, one) => sum + one, 0));
  if (length === undefined)
    throw new HeddleError("option", "mix: a source does not know its length; pass length, the records of an epoch");
  checkInteger("mix", "length", length, 0);
  if (seed !== undefined) checkInteger("mix", "seed", seed, 0);
  if (weights.length !== nodes.length || weights.some((weight) => !(weight > 0 && Number.isFinite(weight))))
    throw new HeddleError("option", `mix: weights must be ${nodes.length} positive numbers, got ${shown(weights)}`);
  return new Records(mixed(nodes, weights, length, seed));
}
