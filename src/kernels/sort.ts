/** @module Sorting of rows. */
import { room, tasksOf } from "./room.ts";
import { dtype, flag, kernel, listOf, reads, records, sized, writes } from "./schema.ts";

/** Bytes of a key with its position. */
const pair = 16;
/** Longer rows use radix sort, with a second buffer. */
const radix = 1024;
const pairs = (count: number): number => (count > radix ? 2 * count : count);

/** Rows in order, with other rows in the same order. */
export const sort = kernel(
  "sort",
  {
    ...sized("rows", "cols"),
    descending: flag(),
    operands: records("OperandJson", { dtype: dtype(), in: reads("[rows cols]"), out: writes("[rows cols]") }),
  },
  {
    doc: "Sorts the rows of all operands by the rows of the first operand: stable; -0 equals 0; NaN is above all numbers.",
    work: ({ rows, cols }) => room(tasksOf(rows, cols), pair * pairs(cols)),
  },
);

/** The largest elements of each row, with their positions. */
export const topK = kernel(
  "topK",
  {
    dtype: dtype(),
    ...sized("rows", "cols", "count"),
    in: reads("[rows cols]"),
    out: listOf(writes(["[rows count]", "i32[rows count]"])),
  },
  {
    doc: "The `count` largest elements of each row, in descending order, and their positions; of equal elements the first come first.",
    work: ({ rows, cols, count }) => room(tasksOf(rows, cols), pair * Math.max(cols, pairs(count))),
  },
);
