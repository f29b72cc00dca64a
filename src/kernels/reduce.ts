/** @module Reductions of strided memory. */
import { dtypes } from "../ir/dtype.ts";
import { reducePartials } from "./partials.ts";
import { dtype, kernel, oneOf, reads, size, sizes, strides, writes } from "./schema.ts";

/** The operation of a reduction. */
export const reduceOps = oneOf("ReduceOp", ["sum", "max", "min", "and", "or"]);

/** Sums, extremes and conjunctions over dims. */
export const reduce = kernel(
  "reduce",
  {
    op: reduceOps,
    dtype: dtype(),
    in: reads("[keep over]", { strides: ["keepStrides", "overStrides"] }),
    keep: sizes(),
    keepStrides: strides(),
    over: sizes(),
    overStrides: strides(),
    out: writes("[keep]"),
  },
  {
    doc: "Combines the elements along the dims `over` by `op`. The identity of max is -inf or the lowest integer. NaN propagates.",
    title: ({ op }) => `reduce ${op}`,
    work: (call) => reducePartials(call) * dtypes[call.dtype].bytes,
  },
);

/** The position of the largest element of each row. */
export const argMax = kernel(
  "argMax",
  { dtype: dtype(), rows: size(), cols: size(), in: reads("[rows cols]"), out: writes("i32[rows]") },
  { doc: "The index of the largest element of each row; the first of ties; the first NaN wins." },
);
