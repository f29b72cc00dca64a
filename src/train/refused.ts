/** @module Values that an op refuses in a step, such as a label of no class: told with the step, and the example of the data. */
import { sizeOf } from "../ir/shape.ts";
import { HeddleError } from "../util/errors.ts";
import type { FedBatch } from "./feed.ts";
import type { Settings } from "./options.ts";

const labelRow = /\blabel -?\d+ at row (\d+) is outside \[0, \d+\)$/;

/** The error of a step or an evaluation, in which rows are those of a shuffled batch; `place` says which one. */
export function refusedIn(error: unknown, place: string, batch: FedBatch, settings: Settings): unknown {
  if (!(error instanceof HeddleError) || error.code !== "value") return error;
  const row = labelRow.exec(error.plain)?.[1];
  const source = row === undefined ? undefined : sourceOf(Number(row), batch, settings);
  const example = source === undefined ? "" : ` (row ${source} of the data)`;
  return error.saying(`${error.plain}${example}, in ${place}`);
}

/** The row of the data that a label is of, where the step sees the batch as a whole. */
function sourceOf(label: number, { sources }: FedBatch, { accumulate, data, target }: Settings): number | undefined {
  const each = sizeOf(data.columns.get(target)?.shape.slice(1) ?? []);
  return accumulate === 1 && each > 0 ? sources?.[Math.floor(label / each)] : undefined;
}

/** Which step it is, in words. */
export const placeOfStep = (
  { step, epoch, batch }: { readonly step: number; readonly epoch: number; readonly batch: number },
  { epochs }: Settings,
): string => `step ${step + 1} (epoch ${epoch + 1} of ${epochs}, batch ${batch + 1})`;

/** What a function gives; its error as told by `say`. */
export function attempt<Result>(body: () => Result, say: (error: unknown) => unknown): Result {
  try {
    return body();
  } catch (error) {
    throw say(error);
  }
}
