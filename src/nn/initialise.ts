/** @module Initial values of parameters. */
import type { DType } from "../ir/dtype.ts";
import type { Shape } from "../ir/shape.ts";
import { random, type Tensor } from "../tensor/index.ts";

/**
 * PyTorch's default for linear and convolution layers, weight and bias alike: uniform in ±1/sqrt(fanIn). (It calls that
 * `kaiming_uniform_` with `a = sqrt(5)`.)
 *
 * @param fanIn inputs that feed one output
 */
export function uniformByFanIn(key: Tensor, shape: Shape, fanIn: number, dtype: DType): Tensor {
  const bound = fanIn === 0 ? 0 : 1 / Math.sqrt(fanIn);
  return random.uniform(key, shape, { min: -bound, max: bound, dtype });
}
