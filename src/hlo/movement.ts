/** @module Moving, slicing, joining and converting values, in StableHLO. */
import { type DType, dtypes, isFloat, isLong, isSigned, longBounds, roundTo } from "../ir/dtype.ts";
import { absent } from "../ir/node.ts";
import type { Shape, TensorType } from "../ir/shape.ts";
import type { PadAttrs, SliceAttrs } from "../ops/slicing.ts";
import { type HloBlock, type HloContext, type HloValue, hloIntegers, hloSame } from "./block.ts";
import { stablehloRules } from "./rules.ts";

/** StableHLO does not define conversions of values that do not fit, so each case is written out. */
function castHlo(hlo: HloBlock, x: HloValue, to: DType): HloValue {
  const from = x.type.dtype as DType;
  if (from === to) return x;
  if (to === "bool") return hlo.compare("NE", x, hlo.like(x, 0));
  if (isFloat(from) && !isFloat(to)) {
    const [lowest, highest] = isLong(to) ? longBounds[to] : [dtypes[to].lowest, dtypes[to].highest];
    const type = { shape: x.type.shape, dtype: to };
    const below = hlo.compare("LE", x, hlo.like(x, roundTo(from, dtypes[to].lowest)));
    const above = hlo.compare("GE", x, hlo.like(x, roundTo(from, dtypes[to].highest)));
    const inside = hlo.select(below, hlo.constant(type, lowest), hlo.convert(x, to));
    const bounded = hlo.select(above, hlo.constant(type, highest), inside);
    return hlo.select(hlo.compare("NE", x, x), hlo.constant(type, 0), bounded);
  }
  return isFloat(from) || isFloat(to) || from === "bool" ? hlo.convert(x, to) : wrapHlo(hlo, x, to);
}

/** Conversion between integers, modulo the width of the result. */
function wrapHlo(hlo: HloBlock, x: HloValue, to: DType): HloValue {
  const from = x.type.dtype as DType;
  const [fromBits, toBits] = [dtypes[from].bytes * 8, dtypes[to].bytes * 8];
  const bitcast = (value: HloValue, dtype: DType): HloValue =>
    value.type.dtype === dtype ? value : hlo.one("bitcast_convert", [value], { shape: x.type.shape, dtype });
  if (fromBits === toBits) return bitcast(x, to);
  // Negative values keep their sign when widened.
  if (fromBits < toBits) return bitcast(hlo.convert(x, `${isSigned(from) ? "i" : "u"}${toBits}` as DType), to);
  if (!isSigned(to)) {
    const bits = bitcast(x, `u${fromBits}` as DType);
    return hlo.convert(hlo.same("and", bits, hlo.like(bits, 2 ** toBits - 1)), to);
  }
  const bits = bitcast(x, `i${fromBits}` as DType);
  const shift = hlo.like(bits, fromBits - toBits);
  return hlo.convert(hlo.same("shift_right_arithmetic", hlo.same("shift_left", bits, shift), shift), to);
}

stablehloRules.define({
  parameter: absent("is an argument of the function"),
  constant: ({ hlo, attrs, outputs }: HloContext<{ value: number }>) => [
    hlo.constant(outputs[0] as TensorType, attrs.value),
  ],
  element: ({ inputs, attrs }: HloContext<{ index: number }>) => [inputs[attrs.index] as HloValue],
  broadcast: ({ hlo, inputs, outputs, attrs }: HloContext<{ shape: Shape; dims: readonly number[] }>) =>
    hlo.op("broadcast_in_dim", inputs, outputs, { broadcast_dimensions: hloIntegers(attrs.dims) }),
  reshape: hloSame("reshape"),
  transpose: ({ hlo, inputs, outputs, attrs }: HloContext<{ order: readonly number[] }>) =>
    hlo.op("transpose", inputs, outputs, { permutation: hloIntegers(attrs.order) }),
  reverse: ({ hlo, inputs, outputs, attrs }: HloContext<{ dims: readonly number[] }>) =>
    hlo.op("reverse", inputs, outputs, { dimensions: hloIntegers(attrs.dims) }),
  iota: ({ hlo, inputs, outputs, attrs }: HloContext<{ dtype: DType; shape: Shape; dim: number }>) =>
    hlo.op("iota", inputs, outputs, { iota_dimension: `${attrs.dim} : i64` }),
  slice: ({ hlo, inputs, outputs, attrs }: HloContext<SliceAttrs>) =>
    hlo.op("slice", inputs, outputs, {
      start_indices: hloIntegers(attrs.start),
      limit_indices: hloIntegers(attrs.limit),
      strides: hloIntegers(attrs.stride),
    }),
  pad: ({ hlo, inputs, outputs, attrs }: HloContext<PadAttrs>) =>
    hlo.op("pad", inputs, outputs, {
      edge_padding_low: hloIntegers(attrs.low),
      edge_padding_high: hloIntegers(attrs.high),
      interior_padding: hloIntegers(attrs.interior),
    }),
  concat: ({ hlo, inputs, outputs, attrs }: HloContext<{ dim: number }>) =>
    hlo.op("concatenate", inputs, outputs, { dimension: `${attrs.dim} : i64` }),
  optimizationBarrier: ({ hlo, inputs }) =>
    hlo
      .op(
        "optimization_barrier",
        inputs,
        inputs.map(({ type }) => type),
      )
      .slice(0, 1),
  bitcast: ({ hlo, inputs, outputs }) => hlo.op("bitcast_convert", inputs, outputs),
  isFinite: ({ hlo, inputs, outputs }) => hlo.op("is_finite", inputs, outputs),
  select: hloSame("select"),
  cast: ({ hlo, inputs, attrs }: HloContext<{ dtype: DType }>) => [castHlo(hlo, inputs[0] as HloValue, attrs.dtype)],
});
