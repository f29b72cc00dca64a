/** @module Values that an op refuses in a step, such as a label of no class or an id of no row: told with the step, and the example of the data. */
import { sizeOf } from "../ir/shape.ts";
import { clamped } from "../tensor/indices.ts";
import { HeddleError, outsideIndex } from "../util/errors.ts";
import { mostParts } from "./accumulate.ts";
import { namesIn } from "./columns.ts";
import type { FedBatch } from "./feed.ts";
import type { Settings } from "./options.ts";

/** Who refused a value, in which iteration of a loop, and why. */
const refusal = /^([^:]+: )(?:iteration (\d+): )?(.+)$/;

/** The error of a step or an evaluation, in which rows are those of a shuffled batch or of a part of it; `place` says which one. */
export function refusedIn(error: unknown, place: string, batch: FedBatch, settings: Settings): unknown {
  if (!(error instanceof HeddleError) || error.code !== "value") return error;
  return error.saying(`${inBatch(error.plain, batch, settings)}, in ${place}`);
}

/** A label or an id by its row in the whole batch and in the data, where it is found there: a model may have made others. */
function inBatch(said: string, batch: FedBatch, { accumulate, data, input, target }: Settings): string {
  const [, who, part, reason = ""] = refusal.exec(said) ?? [];
  const outside = outsideIndex(reason);
  if (outside === undefined) return said;
  const { kind, index, position, least, size } = outside;
  // Of several columns it is not known which one.
  const [name = "", ...others] = namesIn(kind === "label" ? target : input);
  if (others.length > 0) return said;
  const each = sizeOf(data.columns.get(name)?.shape.slice(1) ?? []);
  const parts = mostParts(batch.rows, accumulate);
  // Parts have every so manieth row; an iteration may also be one of the model's own.
  if (each === 0 || (part === undefined) !== (parts === 1)) return said;
  const inPart = Math.floor(position / each) * parts + Number(part ?? 0);
  const offset = position % each;
  const stored = batch.stored(name);
  const valueIn = (row: number): number | bigint | undefined =>
    stored?.[(batch.sources[row] as number) * each + offset] as number | bigint | undefined;
  const isGiven = (value: number | bigint | undefined): boolean => value !== undefined && clamped(value) === index;
  const why = `is outside [${least}, ${size})`;
  const rows = batch.starts.map((start) => start + inPart).filter((row) => row < batch.sources.length);
  const found = rows.find((row) => isGiven(valueIn(row)));
  if (kind === "label") {
    // A loss that makes labels of others keeps their places, which are known where there is one part.
    const row = found ?? (rows.length === 1 ? rows[0] : undefined);
    if (row === undefined) return said;
    const label = found === undefined ? index : valueIn(found);
    return `${who}label ${label} at row ${row * each + offset} ${why} (row ${batch.sources[row]} of the data)`;
  }
  if (found === undefined) return said;
  return `${who}index ${valueIn(found)} in row ${found} of the batch ${why} (row ${batch.sources[found]} of the data)`;
}

/** Which step it is, in words. */
export const placeOfStep = (
  { step, epoch, batch }: { readonly step: number; readonly epoch: number; readonly batch: number },
  { epochs }: Settings,
): string => `step ${step} (epoch ${epoch} of ${epochs}, batch ${batch})`;

/** What a function gives; its error as told by `say`. */
export function attempt<Result>(body: () => Result, say: (error: unknown) => unknown): Result {
  try {
    return body();
  } catch (error) {
    throw say(error);
  }
}
