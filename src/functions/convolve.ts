/** @module Convolutions in groups of channels, on operands without a dim for the groups. */

import type { Node } from "../ir/node.ts";
import { formatType } from "../ir/shape.ts";
import * as ops from "../ops/index.ts";
import { HeddleError } from "../util/errors.ts";

/** Splits the dim of a letter into groups and the rest. */
function split(x: Node, letters: string, letter: string, groups: number): Node {
  const at = letters.indexOf(letter);
  const size = x.shape[at] as number;
  if (size % groups !== 0)
    throw new HeddleError("shape", `conv: ${groups} groups do not divide the ${size} features of ${formatType(x)}`);
  return ops.reshape(x, [...x.shape.slice(0, at), groups, size / groups, ...x.shape.slice(at + 1)]);
}

/**
 * `conv` in groups: each result depends on the input features of its own group.
 *
 * @param attrs with the layout of one group, such as `"bf01,oi01->bf01"`
 * @param of the feature dim of the kernel that is split into groups: `o`, or `i` for a transposed convolution
 */
export function convolve(x: Node, kernel: Node, attrs: ops.ConvAttrs, groups: number, of: "o" | "i" = "o"): Node {
  if (groups === 1) return ops.call("conv", [x, kernel], attrs);
  const dims = ops.convDims(attrs.layout);
  const out = dims.out.replace("f", "gf");
  const layout = `${dims.x.replace("f", "gf")},${dims.kernel.replace(of, `g${of}`)}->${out}`;
  const parts = [split(x, dims.x, "f", groups), split(kernel, dims.kernel, of, groups)];
  const y = ops.call("conv", parts, { ...attrs, layout });
  const at = out.indexOf("g");
  return ops.reshape(y, [...y.shape.slice(0, at), -1, ...y.shape.slice(at + 2)]);
}
