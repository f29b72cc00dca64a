/** @module Random rows, with an unbiased correction. */
import { HeddleError } from "../util/errors.ts";
import { philox4x32 } from "../util/philox.ts";
import { eachPart, type Filter, type Message, numbersOf, type Part, registerFilter, rowsAt, rowsOf } from "./filter.ts";

/** Numbers in [0, 1) with 32 bits, a function of the seed and their position. */
export function uniforms(seed: number): () => number {
  let block = 0;
  let words: readonly number[] = [];
  return () => {
    if (block % 4 === 0) words = philox4x32([block >>> 2, 0, 0, 0], [seed >>> 0, Math.floor(seed / 2 ** 32)]);
    return (words[block++ % 4] as number) / 2 ** 32;
  };
}

/**
 * Updates: sends each row with the probability `keep`, divided by it, so the mean of what arrives is the update. Rows with an infinite
 * value or a NaN are always sent, as they are.
 */
export function randomSkip(keep: number, seed = 0): Filter {
  if (!(keep > 0 && keep <= 1))
    throw new HeddleError("option", `filter 'random-skip': the probability must be above 0 and at most 1, got ${keep}`);
  return {
    name: "random-skip",
    sender() {
      const next = uniforms(seed);
      return {
        encode: (message: Message, { all = false } = {}) =>
          all ? message : eachPart(message, (part) => skip(part, keep, next)),
      };
    },
    receiver: () => ({ decode: (message) => message }),
  };
}

function skip(part: Part, keep: number, next: () => number): Part {
  const { width } = part;
  const values = numbersOf(part, "random-skip").slice();
  const positions: number[] = [];
  for (let position = 0; position < rowsOf(part, "random-skip").length; position++) {
    const own = values.subarray(position * width, (position + 1) * width);
    const isKept = next() < keep;
    const isFinite = own.every((value) => Number.isFinite(value));
    if (!isKept && isFinite) continue;
    positions.push(position);
    if (isFinite) for (const [index, value] of own.entries()) own[index] = value / keep;
  }
  return rowsAt({ ...part, values }, positions, "random-skip");
}

registerFilter({
  name: "random-skip",
  doc: "sends each row of updates with the probability KEEP, divided by it",
  numbers: [
    { name: "KEEP", doc: "the probability", fraction: true },
    { name: "SEED", doc: "the seed of the choice", default: 0 },
  ],
  make: (keep, seed) => randomSkip(keep as number, seed as number),
});
