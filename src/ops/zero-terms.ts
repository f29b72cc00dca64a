/** @module Terms that are 0 where their factor is, whatever the other side: of sums over probabilities, some of which are 0. */
import type { Node } from "../ir/node.ts";
import * as emit from "./emit.ts";
import { inFloat32 } from "./wide.ts";

/** x times y, with broadcasting; 0 where x is 0 and y infinite, and so are both gradients there. NaN stays. */
export const mulNoNan = (x: Node, y: Node): Node =>
  emit.mul(x, emit.select(emit.and(emit.eq(x, 0), emit.isInf(y)), 0, y));

/** x times log(y), with broadcasting; 0 where x is 0 and log(y) not finite, and so are both gradients there. NaN stays. */
export function xlogy(x: emit.Operand, y: emit.Operand): Node {
  const like = (typeof x === "object" ? x : y) as Node;
  const lifted = (operand: emit.Operand): Node =>
    typeof operand === "object" ? operand : emit.constant(like.dtype, operand);
  return inFloat32([lifted(x), lifted(y)], (factor, value) => {
    const none = emit.or(emit.le(value, 0), emit.eq(value, Number.POSITIVE_INFINITY));
    return emit.mul(factor, emit.log(emit.select(emit.and(emit.eq(factor, 0), none), 1, value)));
  });
}
