/** @module Gradients as 16-bit floats. */
import type { Compressor } from "../compressor.ts";
import { registerCompressor } from "../compressor.ts";
import { part } from "./rows.ts";

const cast = (dtype: "bf16" | "f16"): Compressor => ({
  name: dtype,
  travels: "sum",
  feedback: false,
  compress: (x) => ({ message: { x: x.cast(dtype) } }),
  decompress: (message, { dtype: wide }) => part(message, "x").cast(wide),
});

/** Sends gradients as bf16: half the bytes of f32, with 8 bits of precision. Devices add up in bf16. */
export const bf16 = (): Compressor => cast("bf16");

/** Sends gradients as f16: half the bytes of f32, with 11 bits of precision; sums above 65504 are infinite. Devices add up in f16. */
export const f16 = (): Compressor => cast("f16");

registerCompressor({ name: "bf16", doc: "casts to bf16", make: bf16 });
registerCompressor({ name: "f16", doc: "casts to f16", make: f16 });
