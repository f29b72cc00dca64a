/** @module Values that an op refuses in a step, such as a label of no class: told with the step, and the example of the data. */
import { sizeOf } from "../ir/shape.ts";
import { HeddleError } from "../util/errors.ts";
import { mostParts } from "./accumulate.ts";
import type { FedBatch } from "./feed.ts";
import type { Settings } from "./options.ts";

const labelRow = /^([^:]+: )(?:iteration (\d+): )?label (-?\d+) at row (\d+) (is outside \[0, \d+\))$/;

/** The error of a step or an evaluation, in which rows are those of a shuffled batch or of a part of it; `place` says which one. */
export function refusedIn(error: unknown, place: string, batch: FedBatch, settings: Settings): unknown {
  if (!(error instanceof HeddleError) || error.code !== "value") return error;
  return error.saying(`${inBatch(error.plain, batch, settings)}, in ${place}`);
}

/** A label by its row in the whole batch, and in the data where this process sees the batch as a whole. */
function inBatch(said: string, { rows, sources }: FedBatch, { accumulate, data, target }: Settings): string {
  const [, who, part, label, row, why] = labelRow.exec(said) ?? [];
  const each = sizeOf(data.columns.get(target)?.shape.slice(1) ?? []);
  const parts = mostParts(rows, accumulate);
  // Parts have every so manieth row; an iteration may also be one of the model's own.
  if (why === undefined || sources === undefined || each === 0 || (part === undefined) !== (parts === 1)) return said;
  const example = Math.floor(Number(row) / each) * parts + Number(part ?? 0);
  const at = example * each + (Number(row) % each);
  return `${who}label ${label} at row ${at} ${why} (row ${sources[example]} of the data)`;
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
