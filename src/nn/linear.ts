/** @module The linear layer. */

import { dotGeneral, type Tensor } from "../functions/index.ts";
import { isFloat } from "../ir/dtype.ts";
import { formatType, type TensorType } from "../ir/shape.ts";
import { HeddleError } from "../util/errors.ts";
import { checkInteger, checkOptions } from "../util/options.ts";
import { checkInit, type Initialiser, initialValue, type LayerInit, uniformByFanIn } from "./initialise.ts";
import { type Biased, checkWidth, type Layer, madeBy, positioned, scopeKey, type Weighted } from "./layer.ts";

/** Options of {@link linear}. */
export interface LinearOptions {
  /** Add a bias; default true. */
  readonly bias?: boolean;
  /** Initial values of the parameters, such as `{ weight: nn.init.xavierUniform() }`; default PyTorch's. */
  readonly init?: LayerInit;
}

/**
 * `y = x · weightᵀ + bias` over the last dim of x: `[…, in]` to `[…, out]`. Parameters `weight` `[out, in]` and `bias`
 * `[out]` in the dtype of the input, initialised as PyTorch does.
 *
 * @throws HeddleError `option` when `out` is not a positive whole number.
 */
export function linear<Bias extends boolean = true>(
  out: number,
  options: LinearOptions & Biased<Bias> = {},
): Layer<Weighted<Bias>> {
  checkOptions("linear", options, ["bias", "init"]);
  checkInteger("linear", "out", out, 1);
  const { bias = true, init = {} } = options;
  checkInit("linear", init);
  return madeBy(
    positioned<Weighted<Bias>>({
      kind: "linear",
      init(key, input) {
        const size = inputSize(input);
        const defaultInit: Initialiser = (parameterKey, shape, dtype) =>
          uniformByFanIn(parameterKey, shape, size, dtype);
        const make = (name: "weight" | "bias", ordinal: number, shape: readonly number[]): Tensor =>
          initialValue(name, init[name] ?? defaultInit, scopeKey(key, ordinal), { shape, dtype: input.dtype });
        const weight = make("weight", 0, [out, size]);
        const params = bias ? { weight, bias: make("bias", 1, [out]) } : { weight };
        return {
          params: params as Weighted<Bias>,
          state: {},
          output: { dtype: input.dtype, shape: [...input.shape.slice(0, -1), out] },
        };
      },
      apply({ params }, x) {
        checkWidth(x, params.weight.shape[1] as number);
        const { weight, bias: shift } = params as LinearParams;
        return { y: linearly(x, shift === undefined || !bias ? { weight } : { weight, bias: shift }), state: {} };
      },
    }),
    "linear",
    out,
    options,
  );
}

/** Parameters of {@link linearly}. */
export interface LinearParams {
  readonly weight: Tensor;
  readonly bias?: Tensor;
}

/** `x · weightᵀ + bias` over the last dim of x. */
export function linearly(x: Tensor, { weight, bias }: LinearParams): Tensor {
  const dims = { xBatch: [], yBatch: [], xContract: [x.shape.length - 1], yContract: [1] };
  const product = dotGeneral(x, weight, dims);
  return bias === undefined ? product : product.add(bias);
}

function inputSize(input: TensorType): number {
  if (!isFloat(input.dtype)) {
    throw new HeddleError("dtype", `takes floats, got ${formatType(input)}`, {
      hint: "cast the input first",
    });
  }
  const size = input.shape.at(-1);
  if (size === undefined) throw new HeddleError("shape", `takes […, in], got the scalar ${formatType(input)}`);
  return size;
}
