/** @module Lookups: rows and blocks of tables at positions that are known at run time. */
import * as is from "./schema.ts";

const shared = { dtype: is.dtype(), outer: is.size(), size: is.size(), inner: is.size(), count: is.size() };
const [table, rows, indices] = ["[outer size inner]", "[outer count inner]", "i32[outer count]"];
const block = { indices: is.reads(indices), start: is.optional(is.reads("i32[]")), total: is.optional(is.size()) };
const struct = "Gather";

/** Scratch of the size of the table, for the rounding errors of long sums. */
const lost = { bytes: "outer * size * inner * bytes(dtype)" };

/** Rows of a table by index. */
export const gather = is.kernel(
  "gather",
  { ...shared, in: is.reads(table), ...block, out: is.writes(rows) },
  {
    doc: "The rows of `in` at indices. An index outside [0, size) is an error of the run, which names the index, its position and the range. With `start` and `total`, `in` is a block of a larger table: the `size` rows from row `start` on, of `total` rows. An index inside the larger table but outside the block gathers zeros.",
    moves: "out",
    struct,
  },
);

/** Sums of rows by index. */
export const scatterAdd = is.kernel(
  "scatterAdd",
  {
    ...shared,
    updates: is.reads(rows),
    ...block,

    scratch: is.optional(is.scratch()),
    out: is.writes(table),
  },
  {
    doc: "Starts from zeros and adds the rows of `updates` at the indices, in order of position; indices, `start` and `total` are as in `gather`. Sums of floats at more positions than max(2^8, size) have a scratch of the size of `out`, which keeps the rounding errors.",
    derived: lost,
    struct,
  },
);

/** A copy of a table into which rows are combined by index. */
export const scatter = is.kernel(
  "scatter",
  {
    op: is.oneOf("ScatterOp", ["sum", "prod", "max", "min", "replace"]),
    ...shared,
    in: is.reads(table, { inPlace: true }),
    indices: is.reads(indices),
    updates: is.reads(rows),
    scratch: is.optional(is.scratch()),
    out: is.writes(table),
  },
  {
    doc: "A copy of `in` into which the rows of `updates` are combined by `op`, in order of position; an index outside [0, size) is an error of the run. Sums have the scratch of `scatterAdd`.",
    derived: lost,
    struct,
  },
);

const slice = { dtype: is.dtype(), shape: is.sizes(), sizes: is.sizes() };
const starts = is.listOf(is.reads("i32[]"));

/** A block at a position that is known at run time. */
export const dynamicSlice = is.kernel(
  "dynamicSlice",
  { ...slice, in: is.reads("[shape]"), starts, out: is.writes("[sizes]") },
  { doc: "A block of `in`; one start per dim, clamped so that it fits.", moves: "out", struct: "Slice" },
);

/** A copy of a tensor with a block of it replaced. */
export const dynamicUpdateSlice = is.kernel(
  "dynamicUpdateSlice",
  {
    ...slice,
    in: is.reads("[shape]", { inPlace: true }),
    update: is.reads("[sizes]"),
    starts,
    out: is.writes("[shape]"),
  },
  { doc: "A copy of `in` in which `update` replaces a block.", moves: "update", struct: "Slice" },
);
