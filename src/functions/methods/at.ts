/** @module Indexing as in NumPy. */

import type { Node } from "../../ir/node.ts";
import { formatType } from "../../ir/shape.ts";
import * as ops from "../../ops/index.ts";
import { checkTensor, isTensor, operate, type Tensor } from "../../tensor/tensor.ts";
import { HeddleError } from "../../util/errors.ts";
import { shown } from "../../util/show.ts";
import { counted } from "../counted.ts";
import { squeezeNode, wrapped } from "../nodes.ts";

type Bound = number | "";
/** `"from:to"` or `"from:to:step"`, as in Python: `":"`, `"1:"`, `":-1"`, `"::2"`, `"::-1"`. */
export type RangeText = `${Bound}:${Bound}` | `${Bound}:${Bound}:${Bound}`;
/** What {@link at} takes for a dim: an index, a range, an i32 tensor of indices; `"..."` stands for all dims in between, whole. */
export type IndexLike = number | RangeText | "..." | Tensor;

/** The part of one dim: one position, which drops the dim; elements from, from + step, …; or the tensor of indices. */
type Part =
  | { readonly kind: "place"; readonly from: number }
  | { readonly kind: "range"; readonly from: number; readonly count: number; readonly step: number }
  | { readonly kind: "tensor" };

const rangeForm = /^(-?\d+)?:(-?\d+)?(?::(-?\d+)?)?$/;

/**
 * Elements by an index for each dim, from the first dim on; dims without an index are whole. A number picks one slice and drops the
 * dim; a negative number counts from the end. A string is a range as in Python, whose bounds are clamped to the dim. An i32 tensor of
 * indices [i…] takes these slices, and its dims replace the dim (at most one tensor: NumPy pairs the elements of several). `"..."`
 * leaves the dims in the middle whole.
 *
 * @throws HeddleError `shape` for a number outside and for too many indices, `argument` for anything that is not an index and for a
 * second tensor, `dtype` for indices that are not i32; `value` when it runs and a tensor's index lies outside
 * @example x.at(0), x.at("1:"), x.at(":", -1), x.at("...", "::-1"), x.at(tensor([2, 0], { dtype: "i32" }))
 */
export function at(x: Tensor, ...indices: IndexLike[]): Tensor {
  checkTensor("at", x);
  const parts = spelledOut(x, indices).map((index, dim) => partOf(x, index, dim));
  const [index, ...more] = indices.filter(isTensor);
  if (more.length > 0)
    throw new HeddleError("argument", "at: takes one tensor of indices", {
      hint: 'gatherNd(x, stack([i, j], -1)) takes elements at pairs, as NumPy\'s x[i, j]; x.at(i).at(":", j) rows and columns',
    });
  if (index !== undefined && index.dtype !== "i32")
    throw new HeddleError("dtype", `at: indices are i32, got ${index}`, {
      hint: index.dtype === "bool" ? "booleanMask(x, mask) picks where a mask is true" : 'cast them: index.cast("i32")',
    });
  return counted("at", () => operate("at", build, index === undefined ? [x] : [x, index], parts));
}

/** One index per dim. */
function spelledOut({ shape }: Tensor, indices: readonly IndexLike[]): readonly IndexLike[] {
  const dots = indices.indexOf("...");
  const written = indices.filter((index) => index !== "...");
  if (indices.length - written.length > 1) throw new HeddleError("argument", 'at: "..." can stand once');
  if (written.length > shape.length)
    throw new HeddleError(
      "shape",
      `at: ${written.length} indices are given for the ${shape.length} dims of [${shape}]`,
    );
  const whole = new Array<IndexLike>(shape.length - written.length).fill(":");
  const before = dots === -1 ? written.length : dots;
  return [...written.slice(0, before), ...whole, ...written.slice(before)];
}

function partOf(x: Tensor, index: IndexLike, dim: number): Part {
  const size = x.shape[dim] as number;
  if (isTensor(index)) return { kind: "tensor" };
  if (typeof index === "number" && Number.isInteger(index)) {
    if (index < -size || index >= size)
      throw new HeddleError(
        "shape",
        `at: index ${index} is not in [${-size}, ${size - 1}], dim ${dim} of ${formatType(x)}`,
      );
    return { kind: "place", from: index < 0 ? index + size : index };
  }
  const [match, from, to, step = "1"] = (typeof index === "string" ? rangeForm.exec(index) : null) ?? [];
  if (match === undefined || Number(step) === 0)
    throw new HeddleError("argument", `at: dim ${dim} cannot take ${shown(index)}`, {
      hint: 'give an index, a range such as "1:", ":-1" or "::2" with a step that is not 0, an i32 tensor, or "..."',
    });
  return rangeOf(size, from, to, Number(step));
}

/** Python's rule: negative bounds count from the end, and bounds are clamped to the dim. */
function rangeOf(size: number, from: string | undefined, to: string | undefined, step: number): Part {
  const [lowest, highest] = step > 0 ? [0, size] : [-1, size - 1];
  const bound = (text: string | undefined, otherwise: number): number => {
    if (text === undefined) return otherwise;
    const value = Number(text);
    return Math.min(Math.max(value < 0 ? value + size : value, lowest), highest);
  };
  const first = bound(from, step > 0 ? lowest : highest);
  const last = bound(to, step > 0 ? highest : lowest);
  return { kind: "range", from: first, count: Math.max(0, Math.ceil((last - first) / step)), step };
}

function build(x: Node, ...rest: (Node | readonly Part[])[]): Node {
  const parts = rest.at(-1) as readonly Part[];
  const [index] = rest.slice(0, -1) as Node[];
  const sliced = cut(x, parts);
  // From the last dim on, so that the dims of a tensor of indices do not move dims that follow.
  return parts.reduceRight((node, { kind }, dim) => {
    if (kind === "place") return squeezeNode(node, dim);
    if (kind === "range") return node;
    return ops.take(node, wrapped(index as Node, x.shape[dim] as number), dim);
  }, sliced);
}

/** Takes the ranges by one slice and one reversal; positions are ranges of one element. */
function cut(x: Node, parts: readonly Part[]): Node {
  const bounds = parts.map((part, dim) => {
    if (part.kind === "tensor") return [0, x.shape[dim] as number, 1] as const;
    const { from, count, step } = part.kind === "place" ? { from: part.from, count: 1, step: 1 } : part;
    if (count === 0) return [0, 0, 1] as const;
    const last = from + (count - 1) * step;
    return step > 0 ? ([from, last + 1, step] as const) : ([last, from + 1, -step] as const);
  });
  const backwards = parts.flatMap((part, dim) => (part.kind === "range" && part.step < 0 ? [dim] : []));
  const sliced = ops.slice(x, ...([0, 1, 2].map((which) => bounds.map((bound) => bound[which] as number)) as Bounds));
  return backwards.length === 0 ? sliced : ops.reverse(sliced, backwards);
}
type Bounds = [number[], number[], number[]];
