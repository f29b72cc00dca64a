/** @module Fourier transforms. */
import { dtypes } from "../ir/dtype.ts";
import { aligned, product, room, tasksOf } from "./room.ts";
import { dtype, kernel, oneOf, reads, size, sizes, writes } from "./schema.ts";

const [real, half, complex] = ["[batch length]", "[batch half(length) 2]", "[batch length 2]"];

/** Fourier transforms over trailing dims. */
export const fft = kernel(
  "fft",
  {
    kind: oneOf("FftKind", ["forward", "inverse", "fromReal", "toReal"]),
    dtype: dtype(),
    batch: size(),
    length: sizes(),
    in: reads({ by: "kind", cases: { forward: complex, inverse: complex, fromReal: real, toReal: half } }),
    out: writes({ by: "kind", cases: { forward: complex, inverse: complex, fromReal: half, toReal: real } }),
  },
  {
    doc: "Fourier transforms over 1 to 3 dims. Complex values are pairs of numbers; the complex side of `fromReal` and `toReal` has `length / 2 + 1` values in the last dim. `inverse` and `toReal` divide by the number of points.",
    work: ({ kind, dtype, batch, length }) => {
      const number = 2 * dtypes[dtype].bytes;
      const total = batch * product(length);
      const between = kind === "fromReal" || kind === "toReal" ? aligned(total * number) : 0;
      const tasks = Math.max(...length.map((n) => tasksOf(total / n, n)));
      return between + room(tasks, number * Math.max(...length.map(lineNumbers)));
    },
  },
);

/** Longer lines allocate their scratch at run time. */
const longest = 2 ** 22;

/** Complex numbers for a line and its transform. */
function lineNumbers(n: number): number {
  if (n > longest) return 0;
  let rest = n;
  for (const factor of [2, 3, 5, 7, 11]) while (rest % factor === 0) rest /= factor;
  return n + (rest === 1 ? 2 * n : 8 * n) + 64;
}
