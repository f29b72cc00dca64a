/** @module Functions as text for other systems. */

import { stablehloText } from "../hlo/index.ts";
import { type Mesh, mesh as meshOfSizes } from "../plan/index.ts";
import { checkOptions } from "../util/options.ts";
import { type AnyFunction, type Example, planFunction } from "./transforms.ts";

export interface StableHloOptions {
  /** For several devices, which are replicas then: `mesh({ data: 2 })`. Default: one device. */
  readonly mesh?: Mesh;
}

/**
 * A function as a StableHLO module, the language that XLA compiles: its public function `main` takes the leaves of the arguments
 * in order, then tensors that the function uses from outside. Nothing is computed; docs/stablehlo.md says what differs in meaning.
 *
 * @param example the arguments, as tensors or as `{ shape, dtype }`
 * @throws HeddleError `op` naming one that StableHLO has no spelling for.
 * @example stablehlo((x) => x.exp().sum(), [{ shape: [4], dtype: "f32" }])
 */
export function stablehlo(fn: AnyFunction, example: readonly Example[], options: StableHloOptions = {}): string {
  checkOptions("stablehlo", options, ["mesh"]);
  const { plan } = planFunction(fn, example, options.mesh ?? meshOfSizes({}));
  return stablehloText(plan.local, { axes: plan.mesh.axes });
}
