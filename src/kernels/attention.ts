/** @module Attention in groups of heads that share keys. */
import * as is from "./schema.ts";

const shared = {
  dtype: is.dtype(),
  lead: is.sizes(),
  ...is.sized("r", "n", "m", "d", "e"),
  scale: is.number(),
  causal: is.flag(),
  query: is.strided(is.reads("[lead r n d]")),
  key: is.strided(is.reads("[lead m d]")),
  value: is.strided(is.reads("[lead m e]")),
  mask: is.optional(
    is.record("MaskJson", {
      at: is.reads("[lead r n m]", { strides: ["strides"] }),
      dtype: is.dtype(),
      strides: is.strides(),
    }),
  ),
  dropout: is.optional(
    is.record("DropoutJson", {
      words: is.reads("u32[2]"),
      start: is.reads("i32[rank(total)]"),
      total: is.sizes(),
      threshold: is.word(),
      factor: is.number(),
    }),
  ),
  scratch: is.scratch(),
  slots: is.size(),
};

/** Rows and columns of a block of scores. */
const [rows, columns] = [32, 128] as const;

/** The scratch of a worker: two blocks of scores, the queries of a block and their cotangents, and the random words of a row. */
const slot = `${rows} * (2 * ${columns} + d + e) * bytes(dtype) + 4 * ${columns}`;

const facts = {
  derived: { bytes: "slots * slot" },
  groups: { shared: ["AttentionJson", shared, { slot }] },
} as const;

/** Scaled dot-product attention, tile by tile. */
export const attention = is.kernel(
  "attention",
  { ...shared, out: is.writes("[lead r n e]"), lse: is.writes("[lead r n]") },
  {
    ...facts,
    doc: "`softmax(scale · q kᵀ) v` of f32 and f64 for each of the `r` heads of a group, and the log of each row's sum of exponentials. `causal`: row i sees columns up to i. A bool `mask` sets the scores where it is 0 to -inf; a mask of `dtype` is added to the scores. A row that sees no column gives zeros, and -inf as its log. `dropout`: a weight is 0 if its word of `randomBits` (with this key and start, stream 0) is not below the threshold; the other weights are multiplied by the factor. Computed in blocks of 32 rows and 128 columns, in order, with a running maximum and sum; scratch per slot: two such blocks, 32 rows of query and of out, 128 words.",
    struct: "AttentionForward",
  },
);

/** The gradients of {@link attention} by query, key and value. */
export const attentionGrad = is.kernel(
  "attentionGrad",
  {
    ...shared,
    lse: is.reads("[lead r n]"),
    delta: is.reads("[lead r n]"),
    dy: is.strided(is.reads("[lead r n e]")),
    dq: is.writes("[lead r n d]"),
    dk: is.writes("[lead m d]"),
    dv: is.writes("[lead m e]"),
  },
  {
    ...facts,
    doc: "With weights `p = exp(score - lse)`, their cotangents `dp = dy vᵀ` and `ds = p (dp - delta)`: `dq = scale · ds k`, `dk = scale · dsᵀ q`, `dv = pᵀ dy`.",
    struct: "AttentionGrad",
  },
);
