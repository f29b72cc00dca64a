/** @module Products with matrices that are given by entries. */
import * as is from "../schema.ts";

const shared = { dtype: is.dtype(), ...is.sized("count", "inner") };
const places = "i32[count]";

/** The product of a matrix given by entries with a dense one. */
export const entriesDot = is.kernel(
  "entriesDot",
  {
    ...shared,
    ...is.sized("rows", "size"),
    values: is.reads("[count]"),
    from: is.reads(places),
    to: is.reads(places),
    dense: is.reads("[rows inner]"),
    out: is.writes("[size inner]"),
  },
  {
    doc: "Each entry adds `values` times the row `from` of `dense` to the row `to` of `out`, whose other rows are 0, in f32 or f64; sums are made in f64. Where `to` ascends, as in CSR, rows are made one after another, else in up to 16 areas side by side. An index outside is an error of the run.",
    work: ({ count, inner, size }) =>
      8 * inner * Math.max(2 * between(count * inner, 2 ** 16, 64), between(count, 4 * Math.max(size, 1), 16) * size),
  },
);

/** How often a size fits another one: once at least, and `most` times at most. */
const between = (size: number, by: number, most: number): number => Math.min(Math.max(Math.floor(size / by), 1), most);

/** The product of two dense matrices at some places. */
export const sampledDot = is.kernel(
  "sampledDot",
  {
    ...shared,
    ...is.sized("m", "n"),
    left: is.reads("[m inner]"),
    right: is.reads("[n inner]"),
    rows: is.reads(places),
    columns: is.reads(places),
    out: is.writes("[count]"),
  },
  {
    doc: "Products of rows of `left` and rows of `right`, a pair for each place, in f32 or f64; sums are made in f64. An index outside is an error of the run.",
  },
);
