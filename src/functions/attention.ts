/** @module Attention on tensors. */
import { isFloat, wideDType } from "../ir/dtype.ts";
import type { Node } from "../ir/node.ts";
import { formatType, type Shape, sameShape } from "../ir/shape.ts";
import * as ops from "../ops/index.ts";
import { checkTensor, operate, type Tensor } from "../tensor/tensor.ts";
import { HeddleError } from "../util/errors.ts";
import { checkNumber, checkOptions } from "../util/options.ts";

/** Options of {@link scaledDotProductAttention}. */
export interface AttentionOptions {
  /**
   * Broadcasts to the scores `[…, heads, n, m]`: bool, true where a query sees a key, or in the dtype of the queries, added
   * to the scores.
   */
  readonly mask?: Tensor | undefined;
  /** Query i sees keys up to i only, both counted from the front; default false. */
  readonly causal?: boolean;
  /** Of the scores; default `1 / √d`. */
  readonly scale?: number | undefined;
  /** Probability with which a weight is 0, the others being scaled by `1 / (1 - dropout)`; default 0. */
  readonly dropout?: number;
  /** Random key (u32[2]) of the dropout. */
  readonly key?: Tensor | undefined;
}

/**
 * `softmax(scale · q kᵀ + mask) v` of queries `[…, heads, n, d]`, keys `[…, heads or fewer, m, d]` and values
 * `[…, as keys, m, e]`: `[…, heads, n, e]`. Heads of queries that are a multiple of those of keys share them in groups
 * (grouped-query attention, Ainslie et al., 2023). The native kernels go over blocks and never hold the scores (Rabe and
 * Staats, 2021; Dao et al., 2022), forwards and backwards; gradients of gradients do. A query that sees no key gives zeros. 16-bit
 * floats are computed in f32.
 *
 * @throws HeddleError `shape` or `dtype` when the inputs do not fit; `option` for an option out of range; `key` for
 * dropout without a key
 */
export function scaledDotProductAttention(q: Tensor, k: Tensor, v: Tensor, options: AttentionOptions = {}): Tensor {
  const name = "scaledDotProductAttention";
  checkOptions(name, options, ["mask", "causal", "scale", "dropout", "key"]);
  const { mask, causal = false, scale, dropout = 0, key } = options;
  for (const input of [q, k, v]) checkTensor(name, input);
  checkInputs(q, k, v, mask);
  if (scale !== undefined) checkNumber(name, "scale", scale);
  checkNumber(name, "dropout", dropout, 0, 1);
  if (dropout > 0 && key === undefined)
    throw new HeddleError("key", `${name}: dropout draws and needs a random key`, {
      hint: "{ key: random.key(seed) }",
    });
  const fixed = {
    causal,
    scale: scale ?? 1 / Math.sqrt(q.shape.at(-1) as number),
    rate: dropout,
    masked: mask !== undefined,
  };
  const operands = [q, k, v, ...(mask === undefined ? [] : [mask]), ...(dropout > 0 ? [key as Tensor] : [])];
  return operate(name, build, operands, fixed);
}

type Fixed = { causal: boolean; scale: number; rate: number; masked: boolean };

/** The statics come last, after however many inputs there are. */
function build(...given: (Node | Fixed)[]): Node {
  const { causal, scale, rate, masked } = given.at(-1) as Fixed;
  const [first, second, third, ...rest] = given.slice(0, -1) as [Node, Node, Node, ...Node[]];
  const { dtype } = first;
  const wide = wideDType(dtype);
  const [q, k, v] = [first, second, third].map((node) => ops.cast(node, wide)) as [Node, Node, Node];
  const heads = q.shape.at(-3) ?? 1;
  const groups = k.shape.at(-3) ?? 1;
  const lead = q.shape.slice(0, -3);
  const apart = (shape: Shape): number[] => [...lead, groups, heads / groups, ...shape.slice(-2)];
  const grouped = (node: Node): Node => ops.reshape(node, [...lead, groups, ...node.shape.slice(-2)]);
  const mask = masked ? spreadMask(rest[0] as Node, [...lead, groups, heads / groups], q.shape, wide) : undefined;
  const out = ops.attention(ops.reshape(q, apart(q.shape)), grouped(k), grouped(v), {
    causal,
    scale,
    mask,
    // All weights dropped: what would be is 0, not 0 times an infinity.
    rate: rate === 1 ? 0 : rate,
    key: rest.at(-1),
  });
  const made = ops.cast(ops.reshape(out, [...q.shape.slice(0, -1), v.shape.at(-1) as number]), dtype);
  return rate === 1 ? ops.zerosLike(made) : made;
}

/** The mask with the rank of the scores, its heads in groups where it has them. */
function spreadMask(mask: Node, lead: readonly number[], q: Shape, dtype: Node["dtype"]): Node {
  const own = mask.dtype === "bool" ? mask : ops.cast(mask, dtype);
  const rank = Math.max(q.length, 3);
  const sizes = [...new Array<number>(rank - own.shape.length).fill(1), ...own.shape];
  const heads = sizes.at(-3) === 1 ? [1, 1] : lead.slice(-2);
  return ops.reshape(own, [...sizes.slice(0, -3), ...heads, ...sizes.slice(-2)]);
}

function checkInputs(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | undefined): void {
  const fail = (reason: string): never => {
    const given = [q, k, v, ...(mask === undefined ? [] : [mask])].map(formatType).join(", ");
    throw new HeddleError("shape", `scaledDotProductAttention: ${reason}; got ${given}`);
  };
  const rank = q.shape.length;
  if (rank < 2 || k.shape.length !== rank || v.shape.length !== rank)
    fail("takes queries […, heads, n, d], keys […, heads, m, d] and values […, heads, m, e]");
  if (!isFloat(q.dtype) || k.dtype !== q.dtype || v.dtype !== q.dtype)
    throw new HeddleError(
      "dtype",
      `scaledDotProductAttention: takes floats of one dtype, got ${[q, k, v].map(formatType).join(", ")}`,
    );
  if (k.shape.at(-1) !== q.shape.at(-1)) fail("the last dims of queries and keys differ");
  if (!sameShape(k.shape.slice(0, -1), v.shape.slice(0, -1))) fail("keys and values differ in number");
  if (!sameShape(q.shape.slice(0, -3), k.shape.slice(0, -3))) fail("batch dims differ");
  if (k.shape.at(-2) === 0) fail("there are no keys");
  const [heads, groups] = [q.shape.at(-3) ?? 1, k.shape.at(-3) ?? 1];
  if (groups === 0 || heads % groups !== 0) fail(`${heads} heads of queries cannot share ${groups} of keys`);
  if (mask === undefined) return;
  if (mask.dtype !== "bool" && mask.dtype !== q.dtype)
    throw new HeddleError("dtype", `scaledDotProductAttention: a mask is bool or ${q.dtype}, got ${formatType(mask)}`);
  const scores = [...q.shape.slice(0, -1), k.shape.at(-2) as number];
  const offset = scores.length - mask.shape.length;
  const broadcasts = mask.shape.every((size, dim) => size === 1 || size === scores[dim + offset]);
  if (offset < 0 || !broadcasts) fail(`the mask does not broadcast to the scores [${scores.join(",")}]`);
}
