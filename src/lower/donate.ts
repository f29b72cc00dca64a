/** @module Donation: outputs that are made in the buffer of an input, where no one still reads that input. */
import { type KernelCall, type View, wholeView } from "../ir/kernel.ts";
import type { TensorType } from "../ir/shape.ts";
import { livesOf, readsInPlace } from "./access.ts";
import { flatten } from "./nest.ts";
import type { Storage, StoragePool } from "./storage.ts";

/**
 * Keeps an output in its donor's buffer when every read of the donor is before the output's first write, or is of the
 * same elements in the same call. Otherwise the output is made in the arena and copied at the end.
 */
export function donateBuffers(
  calls: readonly KernelCall[],
  donors: ReadonlyMap<Storage, Storage>,
  inPlace: readonly (readonly [Storage, Storage])[],
  pool: StoragePool,
  copy: (from: View, to: View) => void,
  outputs: readonly TensorType[],
): void {
  const flat = flatten(calls);
  const lives = livesOf(flat);
  const late: { readonly from: View; readonly to: View }[] = [];
  for (const [storage, donor] of donors) {
    const written = lives.get(storage)?.firstWrite ?? Infinity;
    const read = lives.get(donor)?.lastRead ?? -1;
    if (read < written) continue;
    const takesOver = inPlace.some(([from, to]) => from === donor && to === storage);
    if (read === written && (takesOver || readsInPlace(flat.calls[written] as KernelCall, donor, storage))) continue;
    const index = storage.output as number;
    const type = outputs[index] as TensorType;
    const to = pool.tensor("value", type, storage.label);
    (to.origin as Storage).output = index;
    storage.output = undefined;
    late.push({ from: wholeView(storage, type), to });
  }
  // All of these read the arena alone, so their order does not matter.
  for (const { from, to } of late) copy(from, to);
}
