/** @module Sorting of rows. */
import { room, tasksOf } from "./room.ts";
import { dtype, flag, kernel, listOf, reads, records, sized, writes } from "./schema.ts";

/** Bytes of a key with its place. */
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
    doc: "Each operand's rows in the order of the first one's: stable, -0 beside 0, NaN above all numbers.",
    work: ({ rows, cols }) => room(tasksOf(rows, cols), pair * pairs(cols)),
  },
);

/** The largest elements of each row, with their places. */
export const topK = kernel(
  "topK",
  {
    dtype: dtype(),
    ...sized("rows", "cols", "count"),
    in: reads("[rows cols]"),
    out: listOf(writes(["[rows count]", "i32[rows count]"])),
  },
  {
    doc: "The `count` largest of each row, from the largest on, and their places, of equal ones the first.",
    work: ({ rows, cols, count }) => room(tasksOf(rows, cols), pair * Math.max(cols, pairs(count))),
  },
);
