/** @module Loops and branches, whose calls hold further calls. */
import { flag, kernel, optional, reads, size, steps, writes } from "./schema.ts";

/** Runs a list of calls many times. */
export const loop = kernel(
  "loop",
  {
    count: optional(size()),
    reverse: flag(),
    out: writes("i32[]"),
    test: optional(reads("bool[]")),
    condition: optional(steps()),
    steps: steps(),
  },
  {
    doc: "Runs its steps `count` times. Before each iteration the number of the iteration (0, 1, …; with `reverse`, down from `count - 1`) is written to `out`. With `test` instead of `count`, each iteration first runs the steps of `condition`, and the loop ends when `test` then holds 0.",
    title: ({ count, reverse, test }) =>
      test === undefined ? `loop ${count}${reverse === true ? " reverse" : ""}` : "loop while",
    control: "loop",
  },
);

/** Runs one of two lists of calls. */
export const branch = kernel(
  "branch",
  { test: reads("bool[]"), steps: steps(), otherwise: steps() },
  { doc: "Runs `steps` where `test` is not 0, else `otherwise`.", control: "branch" },
);

/** Marks the end of a loop's or branch's steps in a flat list of calls; native code has no such call. */
export const end = kernel("end", {}, { doc: "" });
