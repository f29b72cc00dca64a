/** @module The 2-D convolution layer. */
import { isFloat } from "../ir/dtype.ts";
import { formatType, type TensorType } from "../ir/shape.ts";
import { checkPadding } from "../tensor/arguments.ts";
import { conv2d as convolve, evalShape, type Tensor, type Tensors } from "../tensor/index.ts";
import { HeddleError } from "../util/errors.ts";
import { checkInteger, checkOptions } from "../util/options.ts";
import { checkInit, type Initialiser, initialValue, type LayerInit, uniformByFanIn } from "./initialise.ts";
import { type Layer, positioned, scopeKey } from "./layer.ts";

/** A size for height and width, or one for each. */
export type Size2d = number | readonly [number, number];

/** Options of {@link conv2d}. */
export interface Conv2dOptions {
  /** Number of output channels. */
  readonly out: number;
  /** Height and width of the kernel. */
  readonly kernel: Size2d;
  /** Default 1. */
  readonly strides?: Size2d;
  /** Zeros around the image: a size, `"valid"` for none, `"same"` to keep height and width. Default 0. */
  readonly padding?: Size2d | "same" | "valid";
  /** Distance of the kernel's elements; default 1. */
  readonly dilation?: Size2d;
  /** Add a bias; default true. */
  readonly bias?: boolean;
  /** What the parameters begin with, such as `{ weight: nn.init.kaimingNormal() }`; default PyTorch's. */
  readonly init?: LayerInit;
}

/** Checks a size and gives it for both dims. */
export function sizePair(what: string, name: string, size: Size2d, lowest: number): [number, number] {
  if (typeof size !== "number" && (!Array.isArray(size) || size.length !== 2))
    throw new HeddleError("option", `${what}: ${name} must be a number or [height, width], got ${String(size)}`);
  const [height, width] = typeof size === "number" ? [size, size] : size;
  checkInteger(what, name, height, lowest);
  checkInteger(what, name, width, lowest);
  return [height, width];
}

/** Checks padding and gives it as the operations take it. */
export function imagePadding(what: string, padding: Size2d | "same" | "valid"): [number, number] | "same" | "valid" {
  if (typeof padding !== "string") return sizePair(what, "padding", padding, 0);
  checkPadding(what, padding);
  return padding;
}

/** Throws unless the input is a batch of images. */
export function checkImages(input: TensorType): void {
  if (input.shape.length !== 4) {
    throw new HeddleError("shape", `takes images [batch, channels, height, width], got ${formatType(input)}`);
  }
}

/**
 * Cross-correlation of images `[batch, in, height, width]` with `out` kernels. Parameters `weight`
 * `[out, in, height, width]` and `bias` `[out]` in the dtype of the input, initialised as PyTorch does.
 *
 * @throws HeddleError `option` when a size is not a whole number in its range.
 */
export function conv2d(options: Conv2dOptions): Layer {
  checkOptions("conv2d", options, ["out", "kernel", "strides", "padding", "dilation", "bias", "init"]);
  const { out, padding = 0, bias = true, init = {} } = options;
  checkInit("conv2d", init);
  checkInteger("conv2d", "out", out, 1);
  const kernel = sizePair("conv2d", "kernel", options.kernel, 1);
  const window = {
    strides: sizePair("conv2d", "strides", options.strides ?? 1, 1),
    dilation: sizePair("conv2d", "dilation", options.dilation ?? 1, 1),
    padding: imagePadding("conv2d", padding),
  };
  const apply = (x: Tensor, weight: Tensor): Tensor => convolve(x, weight, window);
  return positioned({
    kind: "conv2d",
    init(key, input) {
      checkImages(input);
      if (!isFloat(input.dtype)) throw new HeddleError("dtype", `takes floats, got ${formatType(input)}`);
      const { dtype } = input;
      const shape = [out, input.shape[1] as number, ...kernel];
      const fanIn = shape.slice(1).reduce((product, size) => product * size, 1);
      // Before anything is drawn, so that an image too small for the kernel is told at once.
      const output = evalShape(apply, input, { dtype, shape });
      const usual: Initialiser = (own, sizes) => uniformByFanIn(own, sizes, fanIn, dtype);
      const make = (name: "weight" | "bias", ordinal: number, sizes: readonly number[]): Tensor =>
        initialValue(name, init[name] ?? usual, scopeKey(key, ordinal), { shape: sizes, dtype });
      const weight = make("weight", 0, shape);
      const params: Tensors = bias ? { weight, bias: make("bias", 1, [out]) } : { weight };
      return { params, state: {}, output };
    },
    apply({ params }, x) {
      const y = apply(x, params["weight"] as Tensor);
      return { y: bias ? y.add((params["bias"] as Tensor).reshape([out, 1, 1])) : y, state: {} };
    },
  });
}
