/** @module ONNX's Unique, of values that are known: how many there are is the size of its results. */
import { dtypes, type HostTensor, range, sizeOf } from "../../ir/index.ts";
import { type NodeContext, type Rows, row } from "./context.ts";
import { hostInts } from "./helpers.ts";

type Known = number | bigint;

const isNaN = (value: Known): boolean => Number.isNaN(Number(value));

/** Ascending, NaN last; NaN equals NaN, and -0 equals 0. */
function compare(left: readonly Known[], right: readonly Known[]): number {
  for (const [index, x] of left.entries()) {
    const y = right[index] as Known;
    if (x < y || (isNaN(y) && !isNaN(x))) return -1;
    if (x > y || (isNaN(x) && !isNaN(y))) return 1;
  }
  return 0;
}

/** The slices of a tensor along an axis, or its elements where there is none. */
function slicesOf({ data, shape }: HostTensor, axis: number | undefined): Known[][] {
  const values = Array.from(data as ArrayLike<Known>);
  if (axis === undefined) return values.map((value) => [value]);
  const inner = sizeOf(shape.slice(axis + 1));
  const count = shape[axis] as number;
  const slices: Known[][] = range(count).map(() => []);
  for (const [index, value] of values.entries()) slices[Math.floor(index / inner) % count]?.push(value);
  return slices;
}

/** Slices put together along an axis again. */
function together({ dtype, shape }: HostTensor, slices: readonly Known[][], axis: number | undefined): HostTensor {
  const sizes = axis === undefined ? [slices.length] : shape.map((size, dim) => (dim === axis ? slices.length : size));
  const inner = axis === undefined ? 1 : sizeOf(shape.slice(axis + 1));
  const data = range(sizeOf(sizes)).map((index) => {
    const slice = slices[Math.floor(index / inner) % slices.length] as Known[];
    return slice[Math.floor(index / (inner * slices.length)) * inner + (index % inner)] as Known;
  });
  return { dtype, shape: sizes, data: dtypes[dtype].create(data as number[]) };
}

function unique(c: NodeContext): HostTensor[] {
  const host = c.host(0);
  const axis = c.hasAttribute("axis") ? c.axis() : undefined;
  const slices = slicesOf(host, axis);
  const order = range(slices.length).sort(
    (left, right) => compare(slices[left] as Known[], slices[right] as Known[]) || left - right,
  );
  /** Places of equal slices, each in order. */
  const groups: number[][] = [];
  for (const [index, position] of order.entries()) {
    const before = slices[order[index - 1] ?? -1];
    if (before !== undefined && compare(before, slices[position] as Known[]) === 0) groups.at(-1)?.push(position);
    else groups.push([position]);
  }
  if (!c.flag("sorted", true)) groups.sort((left, right) => (left[0] as number) - (right[0] as number));
  const firsts = groups.map(([first]) => first as number);
  const inverse = new Array<number>(slices.length);
  for (const [index, indices] of groups.entries()) for (const position of indices) inverse[position] = index;
  const uniques = together(
    host,
    firsts.map((index) => slices[index] as Known[]),
    axis,
  );
  return [uniques, hostInts(firsts), hostInts(inverse), hostInts(groups.map(({ length }) => length))];
}

export const uniqueRows: Rows = { Unique: row(11, unique) };
