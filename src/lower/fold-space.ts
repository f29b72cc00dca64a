/**
 * @module What a folded group walks: values of one shape, of which some dims are combined, and values with one element for
 * each of the others.
 */
import type { View } from "../ir/kernel.ts";
import { otherDims, type Shape, sameShape } from "../ir/shape.ts";

/** The longest row that is folded in one walk; native code refuses longer ones. */
export const longestRow = 1 << 14;
/** Shorter rows, and fewer columns side by side, are left to kernels of their own. */
const shortest = 8;

/** The iteration space of a folded group. */
export interface FoldSpace {
  /** `rows`: neighbours in memory are combined; `columns`: they stay apart, and what lies far from each other is combined. */
  readonly form: "rows" | "columns";
  readonly shape: Shape;
  /** Dims that are combined, ascending. */
  readonly over: readonly number[];
  /** The other dims, outermost in memory first. */
  readonly kept: readonly number[];
}

const pick = <T>(list: readonly T[], wanted: readonly number[]): T[] => wanted.map((dim) => list[dim] as T);

/** The one stride that walks all combined dims of a view; undefined when there is none. */
export function strideOver(view: View, { over }: Pick<FoldSpace, "over">): number | undefined {
  let stride: number | undefined;
  let next = 0;
  for (const dim of [...over].reverse()) {
    const [size, own] = [view.shape[dim] as number, view.strides[dim] as number];
    if (size === 1) continue;
    if (stride === undefined) stride = own;
    else if (own !== next) return undefined;
    next = own * size;
  }
  return stride ?? 0;
}

/** The space in which a view is folded along dims, if it is laid out well for that. */
export function spaceOf(view: View, over: readonly number[]): FoldSpace | undefined {
  const { shape, strides } = view;
  const stride = strideOver(view, { over });
  if (stride === undefined || over.length === 0 || shape.includes(0)) return undefined;
  const kept = otherDims(shape.length, over).sort(
    (left, right) => (strides[right] as number) - (strides[left] as number) || left - right,
  );
  const length = pick(shape, over).reduce((product, size) => product * size, 1);
  if (stride === 1) return length < shortest || length > longestRow ? undefined : { form: "rows", shape, over, kept };
  const inner = kept.filter((dim) => shape[dim] !== 1).at(-1);
  if (inner === undefined || strides[inner] !== 1 || (shape[inner] as number) < shortest) return undefined;
  return { form: "columns", shape, over, kept };
}

export const sameSpace = (one: FoldSpace, other: FoldSpace): boolean =>
  one.form === other.form && sameShape(one.shape, other.shape) && one.over.join() === other.over.join();

/** Shape of a call: rows and what is folded, or what is folded and columns. */
export function callShape(space: FoldSpace): number[] {
  const length = pick(space.shape, space.over).reduce((product, size) => product * size, 1);
  const kept = pick(space.shape, space.kept);
  return space.form === "rows" ? [...kept, length] : [length, ...kept];
}

/** Whether a shape is that of values with one element for each of the kept dims; dims of size 1 do not matter. */
export function isKeptShape(shape: Shape, space: FoldSpace): boolean {
  const sizes = otherDims(space.shape.length, space.over).map((dim) => space.shape[dim] as number);
  const plain = (list: readonly number[]): number[] => list.filter((size) => size !== 1);
  return shape.length <= space.shape.length && sameShape(plain(shape), plain(sizes));
}

/** Strides along the kept dims, in the order of the call, of a view of which {@link isKeptShape} holds. */
export function keptStrides(view: View, space: FoldSpace): number[] {
  const own = view.strides.filter((_stride, dim) => view.shape[dim] !== 1);
  const byDim = new Map<number, number>();
  for (const dim of otherDims(space.shape.length, space.over))
    if (space.shape[dim] !== 1) byDim.set(dim, own[byDim.size] as number);
  return space.kept.map((dim) => byDim.get(dim) ?? 0);
}

/** Strides of a view of the whole shape, in the order of the call. */
export function callStrides(view: View, space: FoldSpace): number[] {
  const kept = space.kept.map((dim) => (view.shape[dim] === 1 ? 0 : (view.strides[dim] as number)));
  const over = strideOver(view, space) as number;
  return space.form === "rows" ? [...kept, over] : [over, ...kept];
}

/** Whether a view of the whole shape can be walked without gaps, or stands still. */
export function walksWell(view: View, space: FoldSpace): boolean {
  const over = strideOver(view, space);
  if (over === undefined) return false;
  if (space.form === "rows") return over === 0 || over === 1;
  const inner = space.kept.filter((dim) => space.shape[dim] !== 1).at(-1);
  const stride = inner === undefined ? 0 : (view.strides[inner] as number);
  return stride === 0 || stride === 1;
}

/** Whether a view of the whole shape repeats a value with one element for each kept dim. */
export function repeats(view: View, value: View, space: FoldSpace): boolean {
  if (view.offset !== value.offset || !sameShape(view.shape, space.shape) || !isKeptShape(value.shape, space))
    return false;
  const wanted = keptStrides(value, space);
  const still = space.over.every((dim) => view.shape[dim] === 1 || view.strides[dim] === 0);
  return still && space.kept.every((dim, place) => view.shape[dim] === 1 || view.strides[dim] === wanted[place]);
}
