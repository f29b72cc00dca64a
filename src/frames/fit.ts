/** @module Learning a frame from records: in one pass, also over all workers of a run. */
import * as comm from "../comm/index.ts";
import type { Records } from "../data/browser.ts";
import { shardSizes } from "../data/browser.ts";
import type { Node } from "../data/records/node.ts";
import { upTo } from "../data/records/node.ts";
import type { Piece } from "../data/records/piece.ts";
import { nodeOf } from "../data/records/records.ts";
import { tensor } from "../functions/index.ts";
import { HeddleError } from "../util/errors.ts";
import { checkOptions } from "../util/options.ts";
import { shown } from "../util/show.ts";
import type { Plain } from "../util/text.ts";
import type { Encoder } from "./encoder.ts";
import { type Frame, type FrameColumns, FrameLearning, type FrameRow } from "./frame.ts";

/** Options of {@link fit}. */
export interface FitOptions {
  /**
   * Whether the workers of a run share the records, each reading a part, and put together what they learned; every worker must call it,
   * after `comm.connect()`. Default false: this process reads all records. The result is the same, but for rounding and, beyond 2,048
   * numbers, for quantiles within their error.
   */
  readonly share?: boolean;
  /** Ends the reading by throwing the signal's reason. */
  readonly signal?: AbortSignal;
}

/**
 * Learns encoders from all records of epoch 0 in one pass, in memory that does not depend on their number.
 *
 * @throws HeddleError `data` naming the record and the column of a value that an encoder does not take
 * @example const frame = await frames.fit(rows, { x: [frames.scale("age", { impute: "mean" }), frames.oneHot("port")], y: frames.recode("class") });
 */
export async function fit<Row extends object, const Columns extends FrameColumns<keyof Row & string>>(
  records: Records<Row>,
  columns: Columns & { readonly [name: string]: Encoder<keyof Row & string> | readonly Encoder<keyof Row & string>[] },
  options: FitOptions = {},
): Promise<Frame<FrameRow<Columns>>> {
  checkOptions("fit", options, ["share", "signal"]);
  const { share = false, signal } = options;
  if (typeof share !== "boolean")
    throw new HeddleError("option", `fit: share must be true or false, got ${shown(share)}`);
  const node = nodeOf("fit")(records);
  const learning = new FrameLearning(columns);
  const [rank, size] = share ? [comm.rank(), comm.size()] : [0, 1];
  for await (const piece of shareOf(node, rank, size, signal)) learning.see(piece);
  if (size === 1) return learning.finish();
  const whole = new FrameLearning(columns);
  for (const state of await exchanged(learning.toJSON())) whole.merge(state);
  return whole.finish();
}

/** The records that a worker reads: a range where their number is known, else every so many pieces of what all must read. */
async function* shareOf(
  node: Node,
  rank: number,
  size: number,
  signal: AbortSignal | undefined,
): AsyncGenerator<Piece> {
  const epoch = { epoch: 0, seed: 0, signal };
  if (node.length !== undefined && size > 1) {
    const sizes = shardSizes(node.length, size);
    const from = sizes.slice(0, rank).reduce((sum, count) => sum + count, 0);
    yield* upTo(node.read({ ...epoch, from }), sizes[rank] as number);
    return;
  }
  let turn = 0;
  for await (const piece of node.read({ ...epoch, from: 0 })) if (turn++ % size === rank) yield piece;
}

/** The states of all workers, in their order. */
async function exchanged(own: Plain): Promise<Plain[]> {
  const bytes = new TextEncoder().encode(JSON.stringify(own));
  const sizes = await comm.allGather(tensor(Int32Array.of(bytes.length), { shape: [1], dtype: "i32" })).data();
  const longest = Math.max(...(sizes as Int32Array));
  const padded = new Uint8Array(longest);
  padded.set(bytes);
  const all = (await comm.allGather(tensor(padded, { shape: [longest], dtype: "u8" })).data()) as Uint8Array;
  return Array.from(sizes as Int32Array, (size, rank) =>
    JSON.parse(new TextDecoder().decode(all.subarray(rank * longest, rank * longest + size))),
  );
}
