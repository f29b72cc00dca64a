/** @module Products of narrow numbers, whose sums are wider. */
import { epilogueOf } from "../dot.ts";
import * as is from "../schema.ts";

/** A side of the product, in its own dtype. */
const side = (view: string) =>
  is.record("NarrowJson", { at: is.reads(view, { strides: ["strides"] }), dtype: is.dtype(), strides: is.strides() });

/** Products of bf16 with sums in f32, and of 8-bit integers with sums in i32. */
export const narrowDot = is.kernel(
  "narrowDot",
  {
    dtype: is.dtype(),
    ...is.sized("b", "m", "k2", "n"),
    x: side("[b m k2]"),
    y: side("[b k2 n]"),
    ...epilogueOf("[n]"),
    out: is.strided(is.writes("[b m n]")),
  },
  {
    doc: "Products of matrices of bf16, whose sums are made in f32 and rounded once where `dtype` is bf16, and of i8 and u8, each side on its own, whose sums wrap in i32; the processor's instructions for these dtypes are used where it has some. With an epilogue, `bias` is added to every row after rounding, then `relu` takes `max(x, 0)`, with the bits of a `fused` step that does the same.",
    epilogue: { columns: ({ n }) => n },
    groups: { epilogue: ["EpilogueJson", epilogueOf("[n]")] },
  },
);
