/**
 * @module ONNX's attention: heads are split, keys and values are appended to those of the past, and masks of several
 * kinds become one.
 */

import type { Tensor } from "../../functions/index.ts";
import * as h from "../../functions/index.ts";
import { type NodeContext, type Result, type Rows, row } from "./context.ts";
import { positions } from "./helpers.ts";
import { dtypeOfCode } from "./tensors.ts";

/** Operands as `[batch, heads, positions, size]`. */
interface Operands {
  readonly q: Tensor;
  readonly k: Tensor;
  readonly v: Tensor;
  readonly past: number;
}

function operands(c: NodeContext): Operands {
  const apart = (index: number, attribute: string): Tensor => {
    if (c.rank() === 4) return c.x(index);
    const [batch, steps] = c.shape(index) as [number, number];
    return c
      .x(index)
      .reshape([batch, steps, c.int(attribute), -1])
      .transpose([0, 2, 1, 3]);
  };
  const after = (index: number, x: Tensor): Tensor => (c.has(index) ? h.concat([c.x(index), x], 2) : x);
  return {
    q: apart(0, "q_num_heads"),
    k: after(4, apart(1, "kv_num_heads")),
    v: after(5, apart(2, "kv_num_heads")),
    past: c.has(4) ? (c.shape(4)[2] as number) : 0,
  };
}

/** Which keys a query sees: by order, by distance, by the length that is filled, and by a mask of bool. */
function visible(c: NodeContext, { q, k, past }: Operands): Tensor | undefined {
  const [queries, keys] = [q.shape[2] as number, k.shape[2] as number];
  const keyPositions = positions(keys, 3, 4);
  const filled = c.has(6) ? c.x(6).cast("i32").reshape([-1, 1, 1, 1]) : undefined;
  // Queries are the last of the positions that are filled.
  const offset = filled !== undefined && !c.has(4) ? filled.sub(queries) : past;
  const distance = positions(queries, 2, 4).add(offset).sub(keyPositions);
  const [left, right] = [c.int("left_window_size", -1), c.int("right_window_size", -1)];
  const conditions = [
    c.flag("is_causal", false) ? distance.ge(0) : undefined,
    left < 0 ? undefined : distance.le(left),
    right < 0 ? undefined : distance.ge(-right),
    filled === undefined ? undefined : keyPositions.lt(filled),
    c.has(3) && c.dtype(3) === "bool" ? padded(c.x(3), keys, 0) : undefined,
  ].filter((condition) => condition !== undefined);
  return conditions.length === 0 ? undefined : conditions.reduce((x, y) => h.and(x, y));
}

/** A mask that is shorter than the keys hides the others. */
function padded(mask: Tensor, keys: number, value: number): Tensor {
  const missing = keys - (mask.shape.at(-1) as number);
  if (missing <= 0) return mask;
  return h.pad(
    mask,
    mask.shape.map((_size, dim): [number, number] => [0, dim === mask.shape.length - 1 ? missing : 0]),
    value,
  );
}

/** Heads of keys or values, each repeated for the query heads that share it. */
function shared(x: Tensor, heads: number): Tensor {
  const [batch, kvHeads, ...rest] = x.shape as [number, number, ...number[]];
  if (kvHeads === heads) return x;
  return x
    .reshape([batch, kvHeads, 1, ...rest])
    .broadcastTo([batch, kvHeads, heads / kvHeads, ...rest])
    .reshape([batch, heads, ...rest]);
}

/**
 * Attention step by step, for options that the fused op does not have. The scores are those that
 * `qk_matmul_output_mode` names.
 */
function stepwise(c: NodeContext, inputs: Operands, scale: number, seen: Tensor | undefined): [Tensor, Tensor] {
  const { q } = inputs;
  const [k, v] = [shared(inputs.k, q.shape[1] as number), shared(inputs.v, q.shape[1] as number)];
  const root = Math.sqrt(scale);
  const raw = q.mul(root).matmul(k.mul(root).transpose([0, 1, 3, 2]));
  const cap = c.float("softcap", 0);
  const capped = cap > 0 ? raw.div(cap).tanh().mul(cap) : raw;
  const mask = c.has(3) && c.dtype(3) !== "bool" ? padded(c.x(3), k.shape[2] as number, -Infinity) : undefined;
  const hidden = seen === undefined ? undefined : h.not(seen);
  const bias = (x: Tensor): Tensor => (hidden === undefined ? x : h.select(hidden, -Infinity, x));
  const biased = bias(mask === undefined ? capped : capped.add(mask));
  const wide = c.hasAttribute("softmax_precision")
    ? biased.cast(dtypeOfCode(c.int("softmax_precision"), "softmax_precision"))
    : biased;
  // A query that sees no key gives zeros, which a softmax of minus infinities would not.
  const none = bias(mask ?? h.zeros([1, 1, 1, k.shape[2] as number], { dtype: q.dtype }))
    .max(-1, { keepDims: true })
    .eq(-Infinity);
  const softmax = h.select(none, h.zerosLike(wide), h.select(none, h.zerosLike(wide), wide).softmax(-1));
  const weights = softmax.cast(q.dtype);
  const scores = [raw, capped, biased, weights][c.int("qk_matmul_output_mode", 0)] as Tensor;
  return [weights.matmul(v), scores];
}

function attention(c: NodeContext): Result[] {
  const inputs = operands(c);
  const { q, k, v } = inputs;
  const scale = c.float("scale", 1 / Math.sqrt(q.shape[3] as number));
  const seen = visible(c, inputs);
  const added = c.has(3) && c.dtype(3) !== "bool";
  const whole = added || c.float("softcap", 0) > 0 || c.asks(3);
  const [y, scores] = whole
    ? stepwise(c, inputs, scale, seen)
    : [h.scaledDotProductAttention(q, k, v, { mask: seen, scale }), undefined];
  const [batch, , steps] = q.shape as [number, number, number];
  return [c.rank() === 4 ? y : y.transpose([0, 2, 1, 3]).reshape([batch, steps, -1]), k, v, scores];
}

export const attentionRows: Rows = {
  Attention: row(23, attention),
};
