/** @module How many async collectives are under way at once. */
import { type Access, coveredBytes } from "../kernels/index.ts";

/**
 * Ends collectives early so that few inputs live for their sake alone: about as many bytes as the largest needs. PyTorch's fully
 * sharded training also waits for one reduce-scatter before the next one starts.
 *
 * @param waitIndices by the index of the collective's call, the index of the call before which it ends; earlier ends are set
 * @param touched the accesses of each call
 */
export function endBySize(waitIndices: Map<number, number>, touched: readonly (readonly Access[])[]): void {
  const first = new Map<number, number>();
  const last = new Map<number, number>();
  touched.forEach((accesses, index) => {
    for (const { at, role } of accesses) {
      last.set(at[0], index);
      if (role !== "read" && !first.has(at[0])) first.set(at[0], index);
    }
  });
  const heldBytes = (index: number): number =>
    (touched[index] as readonly Access[])
      .filter(
        ({ at, role, inPlace }) =>
          role === "read" && !inPlace && (first.get(at[0]) ?? index) < index && last.get(at[0]) === index,
      )
      .reduce((sum, access) => sum + coveredBytes(access).high - coveredBytes(access).low, 0);
  const held = new Map([...waitIndices.keys()].sort((left, right) => left - right).map((at) => [at, heldBytes(at)]));
  // With an eighth more, a bias travels beside its weight.
  const limit = Math.max(...held.values()) * 1.125;
  let started: number[] = [];
  for (const [index, bytes] of held) {
    started = started.filter((earlier) => (waitIndices.get(earlier) as number) > index);
    const total = (): number => started.reduce((sum, earlier) => sum + (held.get(earlier) as number), bytes);
    while (bytes > 0 && total() > limit) waitIndices.set(started.shift() as number, index);
    started.push(index);
  }
}
