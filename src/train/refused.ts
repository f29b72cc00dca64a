/** @module Errors of ops that refuse a value, such as a label out of range: adds the step and the row of the data. */

import { clamped } from "../functions/indices.ts";
import { sizeOf } from "../ir/shape.ts";
import { mostParts } from "../nn/parts.ts";
import { faultError, HeddleError, type OutsideIndex } from "../util/errors.ts";
import { type Fault, type FaultPlace, inRun } from "../util/faults.ts";
import { namesIn } from "./columns.ts";
import type { FedBatch } from "./feed.ts";
import type { Settings } from "./options.ts";

/** Adds the step or evaluation (`run`) to an error of its program, and finds the row of the data, as batches are shuffled and split. */
export function refusedIn(
  error: unknown,
  run: Pick<FaultPlace, "training" | "evaluation">,
  batch: FedBatch,
  settings: Settings,
): unknown {
  if (!(error instanceof HeddleError) || error.code !== "value") return error;
  const { fault, isPlaced, where, plain } = error;
  if (fault === undefined) return error.saying(`${plain}${inRun(run)}`);
  const located = fault.kind === "index" || fault.kind === "label" ? inBatch(fault, batch, settings) : fault;
  return faultError({ ...located, ...run }, { cause: error, ...(isPlaced && where !== undefined ? { where } : {}) });
}

/** Adds the row of the batch and of the data to a fault, if the value is found in the data: a model may also compute labels or ids. */
function inBatch(fault: OutsideIndex, batch: FedBatch, { accumulate, data, input, target }: Settings): Fault {
  const { kind, index, position, iterations = [], device: _device, devices: _devices, ...rest } = fault;
  const [part] = iterations;
  // With several columns, the column of the value is not known.
  const [name = "", ...others] = namesIn(kind === "label" ? target : input);
  if (others.length > 0) return fault;
  const width = sizeOf(data.columns.get(name)?.shape.slice(1) ?? []);
  const parts = mostParts(batch.rows, accumulate);
  // A part has every `parts`-th row. Other iterations belong to a loop of the model.
  if (width === 0 || iterations.length !== (parts === 1 ? 0 : 1)) return fault;
  const inPart = Math.floor(position / width) * parts + (part ?? 0);
  const offset = position % width;
  const valueIn = (row: number): number | bigint | undefined =>
    batch.stored(name, row)?.[offset] as number | bigint | undefined;
  const isRefused = (value: number | bigint | undefined): boolean => value !== undefined && clamped(value) === index;
  const rows = batch.starts.map((start) => start + inPart).filter((row) => row < batch.sources.length);
  const found = rows.find((row) => isRefused(valueIn(row)));
  if (kind === "label") {
    // A loss that computes new labels keeps their order, so the row is known if there is one candidate.
    const row = found ?? (rows.length === 1 ? rows[0] : undefined);
    if (row === undefined) return fault;
    const label = (found === undefined ? undefined : valueIn(found)) ?? index;
    return { ...rest, kind, index: label, position: row * width + offset, source: batch.sources[row] };
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

/** Calls a function; an error is replaced by `say(error)`. */
export function attempt<Result>(body: () => Result, say: (error: unknown) => unknown): Result {
  try {
    return body();
  } catch (error) {
    throw say(error);
  }
}
