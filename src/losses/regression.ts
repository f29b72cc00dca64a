/** @module Regression losses: output, target and single losses have one shape. */
import { full, maximum, minimum, select, type Tensor, xlogy } from "../functions/index.ts";
import { mulNoNan } from "../functions/zero-terms.ts";
import { checkTensor } from "../tensor/tensor.ts";
import { HeddleError, within } from "../util/errors.ts";
import { asRecord, checkNumber } from "../util/options.ts";
import { checkPair, type LossOptions, reduced, type SingleLosses } from "./reduce.ts";

/** Squared error, `(output - target)²`, over all elements; elementwise with reduction `"none"`. */
export function mse(output: Tensor, target: Tensor, options: LossOptions = {}): Tensor {
  return within("mse", () => {
    checkPair("mse", output, target);
    return reduced("mse", [output, target], options, (y, t) => {
      const difference = y.sub(t);
      return difference.mul(difference);
    });
  });
}

/**
 * Absolute error, `|output - target|`, over all elements; elementwise with reduction `"none"`. The gradient at NaN is NaN,
 * where PyTorch's is 0.
 */
export function l1(output: Tensor, target: Tensor, options: LossOptions = {}): Tensor {
  return within("l1", () => {
    checkPair("l1", output, target);
    return reduced("l1", [output, target], options, (y, t) => y.sub(t).abs());
  });
}

/** `d² / 2` where `|d|` is at most `delta`, else `delta · (|d| - delta / 2)`. */
function huberOf(difference: Tensor, delta: number): Tensor {
  // Computed from the clamped difference, so that the gradient never multiplies an infinity by 0.
  const cut = minimum(maximum(difference, -delta), delta);
  return cut.mul(difference.sub(cut.mul(0.5)));
}

/**
 * Huber's loss, as PyTorch's `HuberLoss`: half the squared error up to a difference of `delta`, linear from there on.
 *
 * @param options `delta`: positive, default 1
 */
export function huber(output: Tensor, target: Tensor, options: LossOptions & { readonly delta?: number } = {}): Tensor {
  return within("huber", () => {
    checkPair("huber", output, target);
    const { delta = 1 } = asRecord("huber", options);
    checkNumber("huber", "delta", delta, Number.MIN_VALUE);
    return reduced("huber", [output, target], options, (y, t) => huberOf(y.sub(t), delta), ["delta"]);
  });
}

/**
 * Absolute error that is smooth at 0, as PyTorch's `SmoothL1Loss`: `d² / (2 · beta)` below a difference of `beta`, else
 * `|d| - beta / 2`.
 *
 * @param options `beta`: default 1; 0 gives {@link l1}
 */
export function smoothL1(
  output: Tensor,
  target: Tensor,
  options: LossOptions & { readonly beta?: number } = {},
): Tensor {
  return within("smoothL1", () => {
    checkPair("smoothL1", output, target);
    const { beta = 1 } = asRecord("smoothL1", options);
    checkNumber("smoothL1", "beta", beta, 0);
    const single = (y: Tensor, t: Tensor): Tensor =>
      beta === 0 ? y.sub(t).abs() : huberOf(y.sub(t), beta).mul(1 / beta);
    return reduced("smoothL1", [output, target], options, single, ["beta"]);
  });
}

/** Options of {@link poissonNll}. */
export interface PoissonNllOptions extends LossOptions {
  /** Whether the output is the logarithm of the rate; default true. */
  readonly logInput?: boolean;
  /** Add Stirling's approximation of log(target!), for targets above 1; default false. */
  readonly full?: boolean;
  /** Added to a rate before its logarithm is taken; default 1e-8. */
  readonly epsilon?: number;
}

/**
 * Negative log-likelihood of counts under Poisson's distribution, as PyTorch's `PoissonNLLLoss`: `exp(x) - target · x`.
 * The gradient by a target of 0 is finite with `full`, where PyTorch's is NaN.
 */
export function poissonNll(output: Tensor, target: Tensor, options: PoissonNllOptions = {}): Tensor {
  return within("poissonNll", () => {
    checkPair("poissonNll", output, target);
    const { logInput = true, full: addConstant = false, epsilon = 1e-8 } = asRecord("poissonNll", options);
    checkNumber("poissonNll", "epsilon", epsilon, 0);
    const single = (y: Tensor, t: Tensor): Tensor => {
      const values = logInput ? y.exp().sub(mulNoNan(t, y)) : y.sub(xlogy(t, y.add(epsilon)));
      return addConstant ? values.add(stirling(t)) : values;
    };
    return reduced("poissonNll", [output, target], options, single, ["logInput", "full", "epsilon"]);
  });
}

/** Stirling's approximation of log(n!), for n above 1, else 0. */
function stirling(n: Tensor): Tensor {
  const large = n.gt(1);
  const count = select(large, n, 1);
  const half = count
    .mul(2 * Math.PI)
    .log()
    .mul(0.5);
  return select(large, count.mul(count.log()).sub(count).add(half), 0);
}

/** Options of {@link gaussianNll}. */
export interface GaussianNllOptions extends LossOptions {
  /** Add the constant log(2π) / 2; default false. */
  readonly full?: boolean;
  /** The smallest variance; default 1e-6. A variance below it has gradient 0, unlike in PyTorch. */
  readonly epsilon?: number;
}

/**
 * Negative log-likelihood under normal distributions, as PyTorch's `GaussianNLLLoss`:
 * `(log(variance) + (output - target)² / variance) / 2`.
 *
 * @param variance in the shape of the output, or a shape that broadcasts to it
 */
export function gaussianNll(
  output: Tensor,
  target: Tensor,
  variance: Tensor,
  options: GaussianNllOptions = {},
): Tensor {
  return within("gaussianNll", () => {
    checkPair("gaussianNll", output, target);
    checkTensor("gaussianNll", variance);
    const { full: addConstant = false, epsilon = 1e-6 } = asRecord("gaussianNll", options);
    checkNumber("gaussianNll", "epsilon", epsilon, Number.MIN_VALUE);
    const constant = addConstant ? 0.5 * Math.log(2 * Math.PI) : 0;
    const single = (y: Tensor, t: Tensor, rawVariance: Tensor): Tensor => {
      const bounded = select(rawVariance.lt(epsilon), full([], epsilon, { dtype: rawVariance.dtype }), rawVariance);
      const difference = y.sub(t);
      return bounded.log().add(difference.mul(difference).div(bounded)).mul(0.5).add(constant);
    };
    return reduced("gaussianNll", [output, target, variance], options, single, ["full", "epsilon"]);
  });
}

/** Options of {@link klDivergence}. */
export interface KlDivergenceOptions extends Omit<LossOptions, "reduction"> {
  /** Also `"batchMean"`: the sum divided by the number of rows, which is the mean divergence of a row. Default `"mean"`. */
  readonly reduction?: LossOptions["reduction"] | "batchMean";
  /** Whether the target holds logarithms, too; default false. */
  readonly logTarget?: boolean;
}

/**
 * Kullback and Leibler's divergence, as PyTorch's `KLDivLoss`: `target · (log(target) - output)`, elementwise.
 *
 * @param output logarithms of probabilities
 * @param target probabilities (0 contributes 0, and its gradient is finite, where PyTorch's is NaN), or with `logTarget` their logarithms
 */
export function klDivergence(output: Tensor, target: Tensor, options: KlDivergenceOptions = {}): Tensor {
  return within("klDivergence", () => {
    checkPair("klDivergence", output, target);
    const { logTarget = false, reduction = "mean" } = asRecord("klDivergence", options);
    if (!["mean", "sum", "none", "batchMean"].includes(reduction))
      throw new HeddleError(
        "option",
        `klDivergence: reduction must be mean, sum, none or batchMean, got ${String(reduction)}`,
      );
    const values = (y: Tensor, t: Tensor): Tensor =>
      logTarget ? divergenceOfLogs(y, t) : xlogy(t, t).sub(mulNoNan(t, y));
    const perRow = { ...options, reduction: reduction === "batchMean" ? "mean" : reduction } as const;
    const single = (y: Tensor, t: Tensor): SingleLosses => {
      const elementwise = values(y, t);
      return reduction === "batchMean"
        ? { values: elementwise, mean: () => elementwise.sum().div(y.shape[0] ?? 1) }
        : { values: elementwise };
    };
    return reduced("klDivergence", [output, target], perRow, single, ["logTarget"]);
  });
}

/** `exp(t) · (t - y)`; 0 where the probability is 0, whatever the output. */
function divergenceOfLogs(y: Tensor, t: Tensor): Tensor {
  const hasNoProbability = t.eq(Number.NEGATIVE_INFINITY);
  return t.exp().mul(select(hasNoProbability, 0, t).sub(select(hasNoProbability, 0, y)));
}
