/** @module Attention of heads to keys that groups of them share. */
import { dtypes } from "../ir/dtype.ts";
import {
  dtype,
  flag,
  kernel,
  number,
  optional,
  reads,
  record,
  scratch,
  size,
  sizes,
  strided,
  strides,
  type Values,
  word,
  writes,
} from "./schema.ts";

const shared = {
  dtype: dtype(),
  lead: sizes(),
  r: size(),
  n: size(),
  m: size(),
  d: size(),
  e: size(),
  scale: number(),
  causal: flag(),
  query: strided(reads("[lead r n d]")),
  key: strided(reads("[lead m d]")),
  value: strided(reads("[lead m e]")),
  mask: optional(
    record("Mask", { at: reads("[lead r n m]", { strides: ["strides"] }), dtype: dtype(), strides: strides() }),
  ),
  dropout: optional(
    record("Dropout", {
      words: reads("u32[2]"),
      start: reads("i32[rank(total)]"),
      total: sizes(),
      threshold: word(),
      factor: number(),
    }),
  ),
  scratch: scratch(),
  slots: size(),
};

/** Rows and columns of a block of scores. */
const [rows, columns] = [64, 128] as const;

const facts = {
  derived: {
    /** Of each worker two blocks of scores, four numbers a row, the words of a row. */
    bytes: ({ dtype, slots }: Pick<Values<typeof shared>, "dtype" | "slots">) =>
      slots * ((2 * rows * columns + 4 * rows) * dtypes[dtype].bytes + 4 * columns),
  },
  groups: { shared: ["Attention", shared] },
} as const;

export const attention = kernel(
  "attention",
  { ...shared, out: writes("[lead r n e]"), lse: writes("[lead r n]") },
  {
    ...facts,
    doc: "`softmax(scale · q kᵀ) v` of f32 and f64 for each of the `r` heads of a group, and the log of each row's sum of exponentials. `causal`: row i sees columns up to i. Where a `mask` of bool is 0 a score is -inf; one of the dtype is added. A row that sees nothing gives zeros and -inf. `dropout`: the weight whose word of `randomBits` (that key and start, stream 0) is not below the threshold is 0, the others are multiplied by the factor. Blocks of 64 rows and 128 columns in order, with a running maximum and sum; scratch per slot: two such blocks, four numbers a row, 128 words.",
    struct: "AttentionForward",
  },
);

export const attentionGrad = kernel(
  "attentionGrad",
  {
    ...shared,
    lse: reads("[lead r n]"),
    delta: reads("[lead r n]"),
    dy: strided(reads("[lead r n e]")),
    dq: writes("[lead r n d]"),
    dk: writes("[lead m d]"),
    dv: writes("[lead m e]"),
  },
  {
    ...facts,
    doc: "With weights `p = exp(score - lse)`, their cotangents `dp = dy vᵀ` and `ds = p (dp - delta)`: `dq = scale · ds k`, `dk = scale · dsᵀ q`, `dv = pᵀ dy`.",
    struct: "AttentionGrad",
  },
);
