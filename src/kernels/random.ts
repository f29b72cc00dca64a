/** @module Random bits. */
import { kernel, reads, sizes, word, writes } from "./schema.ts";

/** Random words by key and position in the whole tensor. */
export const randomBits = kernel(
  "randomBits",
  {
    key: reads("u32[2]"),
    start: reads("i32[rank(shape)]"),
    shape: sizes(),
    total: sizes(),
    stream: word(),
    out: writes("u32[shape]"),
  },
  {
    doc: "Philox 4x32-10 (Salmon et al., SC'11). The element whose index in the global tensor of shape `total` is `i` (row-major; `start` + local index) is word `i mod 4` of the block with counter `[lo32(i div 4), hi32(i div 4), stream, 0]`.",
  },
);
