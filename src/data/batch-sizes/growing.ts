/** @module Sizes that grow (Smith et al., "Don't Decay the Learning Rate, Increase the Batch Size", 2018). */
import { checkInteger, checkNumber, checkOptions } from "../../util/options.ts";
import type { BatchSizes } from "./batch-sizes.ts";

/** Options of {@link growing}. */
export interface GrowingOptions {
  readonly from: number;
  readonly to: number;
  /** Steps between two sizes. */
  readonly every: number;
  /** What the size is multiplied by; default 2. */
  readonly factor?: number;
}

/** `from`, multiplied by `factor` after each `every` steps, at most `to`. @throws HeddleError `option` */
export function growing(options: GrowingOptions): BatchSizes {
  checkOptions("growing", options, ["from", "to", "every", "factor"]);
  const { from, to, every, factor = 2 } = options;
  checkInteger("growing", "from", from, 1);
  checkInteger("growing", "to", to, from);
  checkInteger("growing", "every", every, 1);
  checkNumber("growing", "factor", factor, 1, Infinity);
  return { at: (step) => Math.min(to, Math.round(from * factor ** Math.floor(step / every))) };
}
