/** @module Local response normalisation (Krizhevsky et al., 2012): each element is divided by a norm of the neighbouring channels. */
import { evalShape, reduceWindow, type Tensor } from "../functions/index.ts";
import { isFloat, isHalf } from "../ir/dtype.ts";
import { formatType, sizeOf } from "../ir/shape.ts";
import { checkTensor } from "../tensor/tensor.ts";
import { HeddleError, within } from "../util/errors.ts";
import { checkInteger, checkNumber, checkOptions } from "../util/options.ts";
import { type Layer, madeBy, type NoTensors, positioned } from "./layer.ts";

/** Options of {@link localResponseNorm}. */
export interface LocalResponseOptions {
  /** Default 1e-4. */
  readonly alpha?: number;
  /** Default 0.75. */
  readonly beta?: number;
  /** Added to the mean of squares, times alpha; default 1. */
  readonly k?: number;
}

/** `x / (k + alpha / size · sum of squares)^beta` over `size` channels, `before` of which are before an element's own. */
export function acrossChannels(
  x: Tensor,
  size: number,
  before: number,
  { alpha = 1e-4, beta = 0.75, k = 1 }: LocalResponseOptions,
): Tensor {
  const [batch, channels, ...rest] = x.shape as [number, number, ...number[]];
  const rows = x.mul(x).reshape([batch, channels, sizeOf(rest)]);
  const padding = [
    [before, size - 1 - before],
    [0, 0],
  ] as const;
  const sums = reduceWindow(rows, [size, 1], { op: "sum", padding }).reshape(x.shape);
  return x.div(
    sums
      .mul(alpha / size)
      .add(k)
      .pow(beta),
  );
}

function checkSizes(size: number, options: LocalResponseOptions): void {
  checkInteger("localResponseNorm", "size", size, 1);
  checkOptions("localResponseNorm", options, ["alpha", "beta", "k"]);
  const { alpha = 1e-4, beta = 0.75, k = 1 } = options;
  for (const [name, value] of Object.entries({ alpha, beta, k })) checkNumber("localResponseNorm", name, value);
}

/** The function of {@link localResponseNorm}. */
export function localResponse(x: Tensor, size: number, options: LocalResponseOptions = {}): Tensor {
  return within("localResponseNorm", () => {
    checkTensor("localResponseNorm", x);
    checkSizes(size, options);
    if (x.shape.length < 2)
      throw new HeddleError("shape", `localResponseNorm: takes [batch, channels, …], got ${formatType(x)}`);
    if (!isFloat(x.dtype)) throw new HeddleError("dtype", `localResponseNorm: takes floats, got ${formatType(x)}`);
    const wide = isHalf(x.dtype) ? x.cast("f32") : x;
    return acrossChannels(wide, size, Math.floor(size / 2), options).cast(x.dtype);
  });
}

/**
 * Divides each element of `[batch, channels, …]` by `(k + alpha · mean of squares)^beta` over the `size` channels around its own. Channels
 * beyond the ends count as 0; an even `size` has one more channel before. As PyTorch's `LocalResponseNorm`. 16-bit floats are
 * computed in f32.
 */
export function localResponseNorm(size: number, options: LocalResponseOptions = {}): Layer<NoTensors> {
  checkSizes(size, options);
  const apply = (x: Tensor): Tensor => localResponse(x, size, options);
  return madeBy(
    positioned({
      kind: "localResponseNorm",
      init: (_key, input) => ({ params: {}, state: {}, output: evalShape(apply, input) }),
      apply: (_variables, x) => ({ y: apply(x), state: {} }),
    }),
    "localResponseNorm",
    size,
    options,
  );
}
