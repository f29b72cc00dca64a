/** @module Products of matrices, and the epilogue of products and convolutions. */
import { dtypes, isFloat } from "../ir/dtype.ts";
import { dtype, flag, kernel, optional, reads, size, strided, type Values, writes } from "./schema.ts";

/** Fields of an epilogue on results with these columns: bias, then relu. */
export const epilogueOf = (columns: string) => ({ bias: optional(reads(columns)), relu: flag() });

const sizes = { dtype: dtype(), b: size(), m: size(), k2: size(), n: size() };

/** Products of matrices, one for each element of a batch. */
export const dot = kernel(
  "dot",
  {
    ...sizes,
    x: strided(reads("[b m k2]")),
    y: strided(reads("[b k2 n]")),
    ...epilogueOf("[n]"),
    out: strided(writes("[b m n]")),
  },
  {
    doc: "Products of matrices of f32, f64 and integers; integer sums wrap. Products of floats may have an epilogue: `bias` is added to every row, then `relu` takes `max(x, 0)`, with the bits of a `fused` step that does the same.",
    work: (call) => partials(call) * dtypes[call.dtype].bytes,
    epilogue: { columns: ({ n }) => n, when: (call) => isFloat(call.dtype) },
    groups: { epilogue: ["EpilogueJson", epilogueOf("[n]")] },
  },
);

/** Numbers of partial results: a long contracted dim of a small product of floats is cut into at most 16 pieces. */
function partials({ dtype, b, m, k2, n }: Values<typeof sizes>): number {
  const piece = 4096;
  const pieces = isFloat(dtype) && m * n <= 2 ** 14 && k2 >= 2 * piece ? Math.min(Math.floor(k2 / piece), 16) : 1;
  return pieces > 1 ? pieces * b * m * n : 0;
}
