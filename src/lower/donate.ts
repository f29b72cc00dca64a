/** @module Donation: outputs that are written into the buffer of an input, where that input is no longer read. */
import { type KernelCall, type View, wholeView } from "../ir/kernel.ts";
import type { TensorType } from "../ir/shape.ts";
import { livesOf, readsInPlace } from "./access.ts";
import { flatten } from "./nest.ts";
import type { Storage, StoragePool } from "./storage.ts";

/**
 * Leaves an output in its donor's buffer when every read of the donor comes before the output's first write, or is of the same
 * elements in the same call. Otherwise the output is written to the arena and copied at the end.
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
  const lateCopies: { readonly from: View; readonly to: View }[] = [];
  for (const [storage, donor] of donors) {
    const firstWrite = lives.get(storage)?.firstWrite ?? Infinity;
    const lastRead = lives.get(donor)?.lastRead ?? -1;
    if (lastRead < firstWrite) continue;
    const takesOver = inPlace.some(([from, to]) => from === donor && to === storage);
    if (lastRead === firstWrite && (takesOver || readsInPlace(flat.calls[firstWrite] as KernelCall, donor, storage)))
      continue;
    const index = storage.output as number;
    const type = outputs[index] as TensorType;
    const to = pool.tensor("value", type, storage.label);
    (to.origin as Storage).output = index;
    storage.output = undefined;
    lateCopies.push({ from: wholeView(storage, type), to });
  }
  // These copies read only the arena, so their order does not matter.
  for (const { from, to } of lateCopies) copy(from, to);
}
