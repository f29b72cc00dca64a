/** @module Functions as text for other systems. */

import { stablehloText } from "../hlo/index.ts";
import { type Mesh, mesh as meshOfSizes } from "../plan/index.ts";
import { checkOptions } from "../util/options.ts";
import { type AnyFunction, type Example, planFunction } from "./transforms.ts";

export interface StableHloOptions {
  /** The mesh for several devices, such as `mesh({ data: 2 })`, which become replicas. Default: one device. */
  readonly mesh?: Mesh;
}

/**
 * A function as a StableHLO module, the language that XLA compiles: the public function `main` takes the leaves of the arguments
 * in order, then the tensors that the function uses from outside. Nothing is computed; docs/stablehlo.md lists differences in meaning.
 *
 * @param example the arguments, as tensors or as `{ shape, dtype }`
 * @throws HeddleError `op` for an op that StableHLO cannot express.
 * @example stablehlo((x) => x.exp().sum(), [{ shape: [4], dtype: "f32" }])
 */
export function stablehlo(fn: AnyFunction, example: readonly Example[], options: StableHloOptions = {}): string {
  checkOptions("stablehlo", options, ["mesh"]);
  const { plan } = planFunction(fn, example, options.mesh ?? meshOfSizes({}));
  return stablehloText(plan.local, { axes: plan.mesh.axes });
}
