/** @module Values that an op refuses in a step, such as a label of no class or an id of no row: told with the step, and the example of the data. */

import { clamped } from "../functions/indices.ts";
import { sizeOf } from "../ir/shape.ts";
import { faultError, HeddleError, type OutsideIndex } from "../util/errors.ts";
import { type Fault, type FaultPlace, inRun } from "../util/faults.ts";
import { mostParts } from "./accumulate.ts";
import { namesIn } from "./columns.ts";
import type { FedBatch } from "./feed.ts";
import type { Settings } from "./options.ts";

/** The error of a step or an evaluation, in which rows are those of a shuffled batch or of a part of it; `place` says which one. */
export function refusedIn(
  error: unknown,
  place: Pick<FaultPlace, "training" | "evaluation">,
  batch: FedBatch,
  settings: Settings,
): unknown {
  if (!(error instanceof HeddleError) || error.code !== "value") return error;
  const { fault, isPlaced, where, plain } = error;
  if (fault === undefined) return error.saying(`${plain}${inRun(place)}`);
  const told = fault.kind === "index" || fault.kind === "label" ? inBatch(fault, batch, settings) : fault;
  return faultError({ ...told, ...place }, { cause: error, ...(isPlaced && where !== undefined ? { where } : {}) });
}

/** A label or an id by its row in the whole batch and in the data, where it is found there: a model may have made others. */
function inBatch(fault: OutsideIndex, batch: FedBatch, { accumulate, data, input, target }: Settings): Fault {
  const { kind, index, position, iterations = [], device: _one, devices: _of, ...rest } = fault;
  const [part] = iterations;
  // Of several columns it is not known which one.
  const [name = "", ...others] = namesIn(kind === "label" ? target : input);
  if (others.length > 0) return fault;
  const each = sizeOf(data.columns.get(name)?.shape.slice(1) ?? []);
  const parts = mostParts(batch.rows, accumulate);
  // Parts have every so manieth row; an iteration may also be one of the model's own.
  if (each === 0 || iterations.length !== (parts === 1 ? 0 : 1)) return fault;
  const inPart = Math.floor(position / each) * parts + (part ?? 0);
  const offset = position % each;
  const stored = batch.stored(name);
  const valueIn = (row: number): number | bigint | undefined =>
    stored?.[(batch.sources[row] as number) * each + offset] as number | bigint | undefined;
  const isGiven = (value: number | bigint | undefined): boolean => value !== undefined && clamped(value) === index;
  const rows = batch.starts.map((start) => start + inPart).filter((row) => row < batch.sources.length);
  const found = rows.find((row) => isGiven(valueIn(row)));
  if (kind === "label") {
    // A loss that makes labels of others keeps their places, which are known where there is one part.
    const row = found ?? (rows.length === 1 ? rows[0] : undefined);
    if (row === undefined) return fault;
    const label = (found === undefined ? undefined : valueIn(found)) ?? index;
    return { ...rest, kind, index: label, position: row * each + offset, source: batch.sources[row] };
  }
  if (found === undefined) return fault;
  return {
    ...rest,
    kind,
    index: valueIn(found) ?? index,
    position,
    row: found,
    source: batch.sources[found],
    or: undefined,
  };
}

/** What a function gives; its error as told by `say`. */
export function attempt<Result>(body: () => Result, say: (error: unknown) => unknown): Result {
  try {
    return body();
  } catch (error) {
    throw say(error);
  }
}
