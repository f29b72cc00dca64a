/** @module Rows and blocks of tables, at places that are known when a call runs. */
import { dtypes } from "../ir/dtype.ts";
import { product } from "./room.ts";
import {
  dtype,
  kernel,
  listOf,
  oneOf,
  optional,
  reads,
  scratch,
  size,
  sizes,
  text,
  type Values,
  writes,
} from "./schema.ts";

const shared = { dtype: dtype(), outer: size(), size: size(), inner: size(), count: size() };
const [table, rows, places] = ["[outer size inner]", "[outer count inner]", "i32[outer count]"];
const block = { indices: reads(places), start: optional(reads("i32[]")), total: optional(size()) };
const struct = "Lookup";

/** The bytes of the table: what the roundings of long sums lose. */
const lost = {
  bytes: ({ dtype, outer, size, inner }: Values<typeof shared>) => product([outer, size, inner]) * dtypes[dtype].bytes,
};

export const gather = kernel(
  "gather",
  { ...shared, in: reads(table), ...block, failure: optional(text()), out: writes(rows) },
  {
    doc: "Rows of `in` at indices. One outside [0, size) is an error of the run, with the index, its position and the range; or with what `failure` says. With `start` and `total` the table is the `size` rows from `start` on of one of `total` rows: an index inside the larger table but outside the block gathers zeros.",
    moves: "out",
    struct,
  },
);

export const scatterAdd = kernel(
  "scatterAdd",
  {
    ...shared,
    updates: reads(rows),
    ...block,
    failure: optional(text()),
    scratch: optional(scratch()),
    out: writes(table),
  },
  {
    doc: "Zeros, to which rows of `updates` are added in order of position; the rest as `gather`. Sums of floats at more positions than max(2^8, size) have a scratch of the size of `out`, for what their roundings lose.",
    derived: lost,
    struct,
  },
);

export const scatter = kernel(
  "scatter",
  {
    op: oneOf("ScatterOp", ["sum", "prod", "max", "min", "replace"]),
    ...shared,
    in: reads(table, { inPlace: true }),
    indices: reads(places),
    updates: reads(rows),
    scratch: optional(scratch()),
    out: writes(table),
  },
  {
    doc: "A copy of `in` into which the rows of `updates` are combined in order of position; an index outside [0, size) is an error of the run. Scratch of sums as of `scatterAdd`.",
    derived: lost,
    struct,
  },
);

const slice = { dtype: dtype(), shape: sizes(), sizes: sizes() };
const starts = listOf(reads("i32[]"));

export const dynamicSlice = kernel(
  "dynamicSlice",
  { ...slice, in: reads("[shape]"), starts, out: writes("[sizes]") },
  { doc: "A block of `in`; one start per dim, clamped so that it fits.", moves: "out", struct: "Slice" },
);

export const dynamicUpdateSlice = kernel(
  "dynamicUpdateSlice",
  {
    ...slice,
    in: reads("[shape]", { inPlace: true }),
    update: reads("[sizes]"),
    starts,
    out: writes("[shape]"),
  },
  { doc: "`in` with `update` over a block of it.", moves: "update", struct: "Slice" },
);
