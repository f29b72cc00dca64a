/** @module Fourier transforms in StableHLO. */
import type { TensorType } from "../ir/shape.ts";
import { type FftAttrs, realInput, realOutput } from "../ops/fourier.ts";
import { type HloBlock, type HloDType, type HloValue, hloIntegers } from "./block.ts";
import { stablehloRules } from "./rules.ts";
import { hloInSingle } from "./shared.ts";

const fftTypes: { readonly [K in FftAttrs["kind"]]: string } = {
  forward: "FFT",
  inverse: "IFFT",
  fromReal: "RFFT",
  toReal: "IRFFT",
};

const hloComplex = (dtype: HloDType): HloDType => (dtype === "f64" ? "c128" : "c64");

/** The real or the imaginary part of a complex tensor, as a tensor. */
function hloPart(hlo: HloBlock, x: HloValue, part: number): HloValue {
  const { shape, dtype } = x.type;
  const rank = shape.length;
  const attributes = {
    start_indices: hloIntegers(shape.map((_size, dim) => (dim === rank - 1 ? part : 0))),
    limit_indices: hloIntegers(shape.map((size, dim) => (dim === rank - 1 ? part + 1 : size))),
    strides: hloIntegers(shape.map(() => 1)),
  };
  const piece = hlo.one("slice", [x], { shape: [...shape.slice(0, -1), 1], dtype }, attributes);
  return hlo.one("reshape", [piece], { shape: shape.slice(0, -1), dtype });
}

function hloFft(hlo: HloBlock, x: HloValue, output: TensorType, { kind, length }: FftAttrs): HloValue {
  const { dtype } = output;
  const complex = hloComplex(dtype);
  const from = realInput(kind)
    ? x
    : hlo.one("complex", [hloPart(hlo, x, 0), hloPart(hlo, x, 1)], {
        shape: x.type.shape.slice(0, -1),
        dtype: complex,
      });
  const attributes = { fft_type: `#stablehlo<fft_type ${fftTypes[kind]}>`, fft_length: hloIntegers(length) };
  if (realOutput(kind)) return hlo.one("fft", [from], output, attributes);
  const shape = output.shape.slice(0, -1);
  const transformed = hlo.one("fft", [from], { shape, dtype: complex }, attributes);
  const parts = ["real", "imag"].map((name) => {
    const part = hlo.one(name, [transformed], { shape, dtype });
    return hlo.one("reshape", [part], { shape: [...shape, 1], dtype });
  });
  return hlo.one("concatenate", parts, output, { dimension: `${shape.length} : i64` });
}

stablehloRules.define({
  fft: hloInSingle<FftAttrs>(({ hlo, inputs, outputs, attrs }) => [
    hloFft(hlo, inputs[0] as HloValue, outputs[0] as TensorType, attrs),
  ]),
});
