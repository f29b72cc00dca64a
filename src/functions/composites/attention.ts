/**
 * @module Scaled dot-product attention. The kernels go over blocks of queries and keys with a running maximum and sum
 * (Rabe and Staats, 2021; Dao et al., 2022) and never hold the matrix of scores; the bodies here do, and are the reference.
 *
 * Heads come in groups that share keys and values: queries `[…, groups, repeats, n, d]`, keys `[…, groups, m, d]`, values
 * `[…, groups, m, e]`. A mask has the rank of the scores `[…, groups, repeats, n, m]`; its dims of size 1 are broadcast.
 */

import { isFloat, wideDType } from "../../ir/dtype.ts";
import { type Equation, equationOf, letters } from "../../ir/equation.ts";
import type { KernelCall, KernelContext, View } from "../../ir/kernel.ts";
import { absent, type BatchRule, type LocalContext, type Node, type OpDef } from "../../ir/node.ts";
import { formatType, range, type Shape, sameShape, sizeOf, type TensorType } from "../../ir/shape.ts";
import { apply } from "../../ir/trace.ts";
import * as kernels from "../../kernels/index.ts";
import { batchByEquation, batchByLoop } from "../../ops/batch.ts";
import { defineComposite } from "../../ops/composite.ts";
import * as ops from "../../ops/index.ts";
import { blockStart } from "../../ops/local.ts";
import { f32 } from "../../ops/movement.ts";
import { resultsOf } from "../../ops/results.ts";
import { checkTensor, operate, type Tensor } from "../../tensor/tensor.ts";
import { HeddleError } from "../../util/errors.ts";
import { checkNumber, checkOptions } from "../../util/options.ts";

/** Attributes of attention and of its gradient. */
type AttentionAttrs = {
  /** Query i sees the keys up to i, both counted from the front. */
  causal: boolean;
  /** The factor of the scores. */
  scale: number;
  /** Whether there is a mask among the inputs. */
  masked: boolean;
  /** Probability with which a weight is dropped; above 0 a key (u32[2]) and a start (i32 per dim of the scores) are inputs. */
  rate: number;
  /** Shape of the scores in the whole tensor, where weights are dropped. */
  total: Shape;
};

/** The operands of a node, by name. */
interface Operands<T> {
  readonly q: T;
  readonly k: T;
  readonly v: T;
  readonly mask: T | undefined;
  readonly key: T | undefined;
  readonly start: T | undefined;
}

/** Names the inputs; `between` inputs stand between the values and the mask. */
function named<T>(inputs: readonly T[], { masked, rate }: AttentionAttrs, between: number): Operands<T> {
  const rest = inputs.slice(3 + between);
  const mask = masked ? rest.shift() : undefined;
  const [key, start] = rate > 0 ? rest : [];
  return { q: inputs[0] as T, k: inputs[1] as T, v: inputs[2] as T, mask, key, start };
}

/** Shape of the scores. */
const scoreShape = ({ q, k }: Operands<TensorType>): number[] => [...q.shape.slice(0, -1), k.shape.at(-2) as number];

function check(name: string, inputs: readonly TensorType[], attrs: AttentionAttrs, between: number): void {
  const wanted = 3 + between + Number(attrs.masked) + (attrs.rate > 0 ? 2 : 0);
  const text = inputs.map(formatType).join(", ");
  if (inputs.length !== wanted) throw new HeddleError("argument", `${name}: takes ${wanted} inputs, got ${text}`);
  const operands = named(inputs, attrs, between);
  const { q, k, v, mask } = operands;
  const rank = q.shape.length;
  if (
    rank < 4 ||
    !isFloat(q.dtype) ||
    k.dtype !== q.dtype ||
    v.dtype !== q.dtype ||
    k.shape.length !== rank - 1 ||
    v.shape.length !== rank - 1 ||
    k.shape.slice(0, -2).some((size, dim) => size !== q.shape[dim] || size !== v.shape[dim]) ||
    k.shape.at(-1) !== q.shape.at(-1) ||
    k.shape.at(-2) !== v.shape.at(-2) ||
    k.shape.at(-2) === 0 ||
    (mask !== undefined && !isMask(mask, q, scoreShape(operands)))
  ) {
    throw new HeddleError(
      "shape",
      `${name}: needs float queries [groups…, repeats, n, d], keys [groups…, m, d] and values [groups…, m, e] with m above 0, and a mask (bool, or float like them) that broadcasts to [groups…, repeats, n, m]; got ${text}`,
    );
  }
}

const isMask = (mask: TensorType, q: TensorType, scores: Shape): boolean =>
  (mask.dtype === "bool" || mask.dtype === q.dtype) &&
  mask.shape.length === scores.length &&
  mask.shape.every((size, dim) => size === 1 || size === scores[dim]);

/** Letters of the operands. Queries may be split unless `causal` numbers them; keys may not, as each sum is over all keys. */
function lettersOf(operands: Operands<TensorType>, { causal }: AttentionAttrs) {
  const rank = operands.q.shape.length;
  const groups = letters(rank - 3, "g");
  const scores = [...groups, "r", "n", "m"];
  const scoresShape = scoreShape(operands);
  const mask = operands.mask?.shape.map((size, dim) =>
    size === scoresShape[dim] ? (scores[dim] as string) : `x${dim}`,
  );
  return {
    q: [...groups, "r", "n", "d"],
    k: [...groups, "m", "d"],
    v: [...groups, "m", "e"],
    out: [...groups, "r", "n", "e"],
    rows: [...groups, "r", "n"],
    scores,
    mask,
    whole: ["d", "e", "m", "key", "start", ...letters(rank, "x"), ...(causal ? ["n"] : [])],
  };
}

type Letters = ReturnType<typeof lettersOf>;

const extras = ({ mask }: Letters, { rate }: AttentionAttrs): string[][] => [
  ...(mask === undefined ? [] : [mask]),
  ...(rate > 0 ? [["key"], ["start"]] : []),
];

/** The masked scores, and with dropout the factor of each weight: 0, or 1 / (1 - rate). */
function scoresOf(operands: Operands<Node>, attrs: AttentionAttrs): { scores: Node; keep: Node | undefined } {
  const { q, k, mask, key, start } = operands;
  const l = lettersOf(operands as Operands<Node & TensorType>, attrs);
  let scores = ops.mul(ops.einsumPair(q, l.q, k, l.k, l.scores), attrs.scale);
  const shape = scores.shape;
  const hidden = -Infinity;
  if (mask !== undefined)
    scores =
      mask.dtype === "bool"
        ? ops.select(ops.broadcastTo(mask, shape), scores, hidden)
        : ops.add(scores, ops.broadcastTo(mask, shape));
  if (attrs.causal) {
    const [row, column] = [-2, -1].map((dim) => ops.iota("i32", shape, shape.length + dim)) as [Node, Node];
    scores = ops.select(ops.ge(row, column), scores, hidden);
  }
  if (key === undefined || start === undefined) return { scores, keep: undefined };
  const words = ops.call("randomBits", [key, start], { shape, total: attrs.total, stream: 0 });
  const survives = ops.lt(words, ops.full("u32", shape, threshold(attrs)));
  return { scores, keep: ops.select(survives, ops.full(scores.dtype, shape, 1 / (1 - attrs.rate)), 0) };
}

/** Weights whose random word is below this threshold are kept. */
const threshold = ({ rate }: AttentionAttrs): number => Math.min(Math.round((1 - rate) * 2 ** 32), 2 ** 32 - 1);

/** The number to subtract from the scores of a row: 0 for a row that sees no key. */
const shiftOf = (x: Node): Node => ops.select(ops.eq(x, -Infinity), 0, x);

const column = (rows: Node): Node => ops.reshape(rows, [...rows.shape, 1]);

/** For each score, its weight after dropout (`kept`) and its cotangent (`ds`). */
function scoreGradient(
  operands: Operands<Node>,
  attrs: AttentionAttrs,
  [lse, delta, dy]: readonly [Node, Node, Node],
): { weights: Node; ds: Node } {
  const { scores, keep } = scoresOf(operands, attrs);
  const l = lettersOf(operands as Operands<Node & TensorType>, attrs);
  const weights = ops.exp(ops.sub(scores, shiftOf(column(lse))));
  const dropped = (x: Node): Node => (keep === undefined ? x : ops.mul(x, keep));
  const dp = dropped(ops.einsumPair(dy, l.out, operands.v, l.v, l.scores));
  return { weights: dropped(weights), ds: ops.mul(weights, ops.sub(dp, column(delta))) };
}

/** Fields that both kernels share. */
function fields(context: KernelContext<AttentionAttrs>, between: number) {
  const { attrs } = context;
  const { q, k, v, mask, key, start } = named(context.inputs, attrs, between);
  const lead = q.shape.slice(0, -3);
  const [r, n, d] = q.shape.slice(-3) as [number, number, number];
  const [m, e] = v.shape.slice(-2) as [number, number];
  const strided = (view: View) => ({ at: context.at(view), strides: view.strides });
  const still = (view: View): View => ({
    ...view,
    strides: view.strides.map((stride, dim) => (view.shape[dim] === 1 ? 0 : stride)),
  });
  const words = key === undefined ? undefined : context.contiguous(key);
  const from = start === undefined ? undefined : context.contiguous(start);
  const call = {
    dtype: q.dtype,
    lead,
    ...{ r, n, m, d, e },
    scale: attrs.scale,
    causal: attrs.causal,
    query: strided(q),
    key: strided(k),
    value: strided(v),
    ...(mask === undefined ? {} : { mask: { ...strided(still(mask)), dtype: mask.dtype } }),
    ...(words === undefined || from === undefined
      ? {}
      : {
          dropout: {
            words: context.at(words.view),
            start: context.at(from.view),
            total: attrs.total,
            threshold: threshold(attrs),
            factor: 1 / (1 - attrs.rate),
          },
        }),
    slots: context.slots,
  };
  return { calls: [...(words?.calls ?? []), ...(from?.calls ?? [])], call, strided };
}

/** The op on one device: its part of the scores moves the start of the block of random words. */
const localize =
  (name: string, between: number) =>
  ({ attrs, inputs, splits }: LocalContext<AttentionAttrs>): Node => {
    const { start } = named(inputs, attrs, between);
    if (start === undefined) return ops.call(name, inputs, attrs);
    const rank = attrs.total.length;
    let moved = start;
    attrs.total.slice(0, -1).forEach((size, dim) => {
      const first = blockStart(size, dim, splits);
      if (first === undefined) return;
      const here = ops.eq(ops.iota("i32", [rank], 0), dim);
      moved = ops.add(moved, ops.select(here, ops.broadcastTo(first, [rank]), 0));
    });
    return ops.call(name, [...inputs.slice(0, -1), moved], attrs);
  };

/** With dropped weights, each element of the batch gets the bits that it would get alone. */
const batch: BatchRule<AttentionAttrs> = (context) =>
  context.node.attrs.rate > 0 ? batchByLoop(context) : batchByEquation<AttentionAttrs>()(context);

const exampleAttrs: AttentionAttrs = { causal: false, scale: 1, masked: false, rate: 0, total: [] };
const exampleInputs = [f32([1, 1, 1, 1], [0]), f32([1, 2, 1], [1, 2]), f32([1, 2, 1], [3, 5])] as const;

const attentionGradOp: OpDef<AttentionAttrs> = defineComposite<AttentionAttrs>({
  name: "attentionGrad",
  doc: "Gradient of attention by queries, keys and values, from the log of each row's sum, `delta` (per row, sum(dy * out) less the cotangent of that log) and dy.",
  example: {
    inputs: [...exampleInputs, f32([1, 1, 1], [Math.log(2)]), f32([1, 1, 1], [4]), f32([1, 1, 1, 1], [1])],
    attrs: exampleAttrs,
    outputs: [f32([1, 1, 1, 1], [0.5]), f32([1, 2, 1], [0, 0]), f32([1, 2, 1], [0.5, 0.5])],
  },
  check: (inputs, attrs) => check("attentionGrad", inputs, attrs, 3),
  body: (inputs, attrs) => {
    const operands = named(inputs, attrs, 3);
    const [, , , lse, delta, dy] = inputs as [Node, Node, Node, Node, Node, Node];
    const l = lettersOf(operands as Operands<Node & TensorType>, attrs);
    const { weights, ds } = scoreGradient(operands, attrs, [lse, delta, dy]);
    const scaled = ops.mul(ds, attrs.scale);
    return [
      ops.einsumPair(scaled, l.scores, operands.k, l.k, l.q),
      ops.einsumPair(scaled, l.scores, operands.q, l.q, l.k),
      ops.einsumPair(weights, l.scores, dy, l.out, l.v),
    ];
  },
  equation: (inputs, attrs): Equation => {
    const l = lettersOf(named(inputs, attrs, 3), attrs);
    return equationOf([l.q, l.k, l.v, l.rows, l.rows, l.out, ...extras(l, attrs)], [l.q, l.k, l.v], { whole: l.whole });
  },
  linear: [],
  gradient: absent("its body is differentiated"),
  batch,
  localize: localize("attentionGrad", 3),
  form: { kind: "kernel" },
  lower: {
    // The mask follows the cotangent.
    strided: [0, 1, 2, 5, 6],
    emit: (context) => {
      const { calls, call, strided } = fields(context, 3);
      const [, , , lse, delta, dy] = context.inputs as View[] as [View, View, View, View, View, View];
      const [dq, dk, dv] = context.outputs as [View, View, View];
      const more = {
        lse: context.at(lse),
        delta: context.at(delta),
        dy: strided(dy),
        dq: context.at(dq),
        dk: context.at(dk),
        dv: context.at(dv),
      };
      return [...calls, kernels.attentionGrad.scratched(context, { ...call, ...more })];
    },
  },
});

const attentionOp: OpDef<AttentionAttrs> = defineComposite<AttentionAttrs>({
  name: "attention",
  doc: "softmax(scale · q kᵀ + mask) v per head, and the log of each row's sum of exponentials; a row that sees no key gives zeros and -inf.",
  example: {
    inputs: exampleInputs,
    attrs: exampleAttrs,
    outputs: [f32([1, 1, 1, 1], [4]), f32([1, 1, 1], [Math.log(2)])],
  },
  check: (inputs, attrs) => check("attention", inputs, attrs, 0),
  body: (inputs, attrs) => {
    const operands = named(inputs, attrs, 0);
    const l = lettersOf(operands as Operands<Node & TensorType>, attrs);
    const { scores, keep } = scoresOf(operands, attrs);
    const shift = shiftOf(ops.call("stopGradient", [ops.max(scores, -1, { keepDims: true })]));
    const weights = ops.exp(ops.sub(scores, shift));
    const total = ops.sum(weights, -1);
    const keptWeights = keep === undefined ? weights : ops.mul(weights, keep);
    const product = ops.einsumPair(keptWeights, l.scores, operands.v, l.v, l.out);
    const seen = ops.select(ops.eq(total, 0), 1, total);
    const rows = ops.reshape(shift, total.shape);
    return [ops.div(product, column(seen)), ops.select(ops.eq(total, 0), -Infinity, ops.add(ops.log(seen), rows))];
  },
  equation: (inputs, attrs): Equation => {
    const l = lettersOf(named(inputs, attrs, 0), attrs);
    return equationOf([l.q, l.k, l.v, ...extras(l, attrs)], [l.out, l.rows], { whole: l.whole });
  },
  linear: [],
  gradient: ({ node, cotangents }) => {
    const [out, lse] = resultsOf(node) as [Node, Node];
    const dy = cotangents[0] ?? ops.zerosLike(out);
    const along = ops.sum(ops.mul(dy, out), -1);
    const delta = cotangents[1] === undefined ? along : ops.sub(along, cotangents[1]);
    const rowValues = [lse, delta, dy] as const;
    const gradients = apply(
      attentionGradOp,
      [...node.inputs.slice(0, 3), ...rowValues, ...node.inputs.slice(3)],
      node.attrs,
    );
    const operands = named(node.inputs, node.attrs, 0);
    const { mask } = operands;
    const byMask = mask !== undefined && isFloat(mask.dtype) ? [maskGradient(operands, node.attrs, rowValues)] : [];
    return [...resultsOf(gradients), ...byMask];
  },
  batch,
  localize: localize("attention", 0),
  form: { kind: "kernel" },
  lower: {
    strided: [0, 1, 2, 3],
    emit: (context): KernelCall[] => {
      const { calls, call } = fields(context, 0);
      const [out, lse] = context.outputs as [View, View];
      return [...calls, kernels.attention.scratched(context, { ...call, out: context.at(out), lse: context.at(lse) })];
    },
  },
});

/** The gradient by a mask that is added: the cotangents of the scores, summed over the dims that the mask is broadcast along. */
function maskGradient(
  operands: Operands<Node>,
  attrs: AttentionAttrs,
  rowValues: readonly [Node, Node, Node],
): Node | undefined {
  const mask = operands.mask as Node;
  const { ds } = scoreGradient(operands, attrs, rowValues);
  const repeated = range(mask.shape.length).filter((dim) => mask.shape[dim] === 1 && ds.shape[dim] !== 1);
  return ops.sum(ds, repeated, { keepDims: true });
}

/** Options of `attention`; shapes are in the module's comment. */
interface AttentionArguments {
  readonly causal: boolean;
  readonly scale: number;
  readonly mask?: Node | undefined;
  /** Probability below 1 with which a weight is dropped, and the key of the draw. */
  readonly rate?: number;
  readonly key?: Node | undefined;
}

/** Attention over groups of heads; the result is `[…, groups, repeats, n, e]`. */
export function attention(q: Node, k: Node, v: Node, { causal, scale, mask, rate = 0, key }: AttentionArguments): Node {
  const draws = rate > 0 && key !== undefined;
  const total = draws ? scoreShape({ q, k } as unknown as Operands<TensorType>) : [];
  if (draws) sizeOf(total);
  // The key is folded here, not in the op, so that a loop folds it with the iteration.
  const drawn = draws ? [ops.foldIn(key, 0), ops.full("i32", [total.length], 0)] : [];
  const inputs = [q, k, v, ...(mask === undefined ? [] : [mask]), ...drawn];
  const attrs = { causal, scale, masked: mask !== undefined, rate: draws ? rate : 0, total };
  return resultsOf(apply(attentionOp, inputs, attrs))[0] as Node;
}

/** Options of {@link scaledDotProductAttention}. */
export interface AttentionOptions {
  /**
   * Broadcasts to the scores `[…, heads, n, m]`: bool, true where a query sees a key, or in the dtype of the queries, added
   * to the scores.
   */
  readonly mask?: Tensor | undefined;
  /** Query i sees keys up to i only, both counted from the front; default false. */
  readonly causal?: boolean;
  /** The factor of the scores; default `1 / √d`. */
  readonly scale?: number | undefined;
  /** Probability with which a weight becomes 0; other weights are scaled by `1 / (1 - dropout)`. Default 0. */
  readonly dropout?: number;
  /** Random key (u32[2]) of the dropout. */
  readonly key?: Tensor | undefined;
}

/**
 * `softmax(scale · q kᵀ + mask) v` of queries `[…, heads, n, d]`, keys `[…, heads or fewer, m, d]` and values
 * `[…, as keys, m, e]`: `[…, heads, n, e]`. If there are more heads of queries than of keys, a multiple, each head of keys serves
 * a group of query heads (grouped-query attention, Ainslie et al., 2023). The native kernels go over blocks and never hold the
 * scores (Rabe and Staats, 2021; Dao et al., 2022), forwards and backwards; gradients of gradients do hold them. A query that sees
 * no key gives zeros. 16-bit floats are computed in f32.
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
  return operate(name, grouped, operands, fixed);
}

type Fixed = { causal: boolean; scale: number; rate: number; masked: boolean };

/** The fixed arguments come last, after any number of inputs. */
function grouped(...all: (Node | Fixed)[]): Node {
  const { causal, scale, rate, masked } = all.at(-1) as Fixed;
  const [first, second, third, ...rest] = all.slice(0, -1) as [Node, Node, Node, ...Node[]];
  const { dtype } = first;
  const wide = wideDType(dtype);
  const [q, k, v] = [first, second, third].map((node) => ops.cast(node, wide)) as [Node, Node, Node];
  const heads = q.shape.at(-3) ?? 1;
  const groups = k.shape.at(-3) ?? 1;
  const lead = q.shape.slice(0, -3);
  const apart = (shape: Shape): number[] => [...lead, groups, heads / groups, ...shape.slice(-2)];
  const inGroups = (node: Node): Node => ops.reshape(node, [...lead, groups, ...node.shape.slice(-2)]);
  const mask = masked ? spreadMask(rest[0] as Node, [...lead, groups, heads / groups], q.shape, wide) : undefined;
  const out = attention(ops.reshape(q, apart(q.shape)), inGroups(k), inGroups(v), {
    causal,
    scale,
    mask,
    // If all weights are dropped, the result is 0, not 0 times infinity.
    rate: rate === 1 ? 0 : rate,
    key: rest.at(-1),
  });
  const result = ops.cast(ops.reshape(out, [...q.shape.slice(0, -1), v.shape.at(-1) as number]), dtype);
  return rate === 1 ? ops.zerosLike(result) : result;
}

/** The mask with the rank of the scores, its heads in groups if it has heads. */
function spreadMask(mask: Node, lead: readonly number[], q: Shape, dtype: Node["dtype"]): Node {
  const cast = mask.dtype === "bool" ? mask : ops.cast(mask, dtype);
  const rank = Math.max(q.length, 3);
  const sizes = [...new Array<number>(rank - cast.shape.length).fill(1), ...cast.shape];
  const heads = sizes.at(-3) === 1 ? [1, 1] : lead.slice(-2);
  return ops.reshape(cast, [...sizes.slice(0, -3), ...heads, ...sizes.slice(-2)]);
}

function checkInputs(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | undefined): void {
  const fail = (reason: string): never => {
    const types = [q, k, v, ...(mask === undefined ? [] : [mask])].map(formatType).join(", ");
    throw new HeddleError("shape", `scaledDotProductAttention: ${reason}; got ${types}`);
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
