/**
 * @module The iteration space of a folded group: values of one shape, some dims of which are combined, and values with one
 * element for each index of the other dims.
 */
import type { View } from "../ir/kernel.ts";
import { otherDims, type Shape, sameShape } from "../ir/shape.ts";

/** The longest row that is folded in one walk; native code refuses longer ones. */
export const longestRow = 1 << 14;
/** Shorter rows, and fewer adjacent columns, are left to the reduction kernels. */
const shortest = 8;

/** The iteration space of a folded group. */
export interface FoldSpace {
  /**
   * `rows`: elements adjacent in memory are combined; `columns`: adjacent elements stay apart, and distant elements are
   * combined.
   */
  readonly form: "rows" | "columns";
  readonly shape: Shape;
  /** Dims that are combined, ascending. */
  readonly over: readonly number[];
  /** The other dims, outermost in memory first. */
  readonly kept: readonly number[];
}

const pick = <T>(list: readonly T[], dims: readonly number[]): T[] => dims.map((dim) => list[dim] as T);

/** The one stride that walks all combined dims of a view; undefined when no single stride does. */
export function strideOver(view: View, { over }: Pick<FoldSpace, "over">): number | undefined {
  let stride: number | undefined;
  let next = 0;
  for (const dim of [...over].reverse()) {
    const [size, dimStride] = [view.shape[dim] as number, view.strides[dim] as number];
    if (size === 1) continue;
    if (stride === undefined) stride = dimStride;
    else if (dimStride !== next) return undefined;
    next = dimStride * size;
  }
  return stride ?? 0;
}

/** The space in which a view is folded along dims; undefined where the view's strides do not allow it. */
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

export const sameSpace = (left: FoldSpace, right: FoldSpace): boolean =>
  left.form === right.form && sameShape(left.shape, right.shape) && left.over.join() === right.over.join();

/** Shape of a call: rows by folded elements, or folded elements by columns. */
export function callShape(space: FoldSpace): number[] {
  const length = pick(space.shape, space.over).reduce((product, size) => product * size, 1);
  const keptSizes = pick(space.shape, space.kept);
  return space.form === "rows" ? [...keptSizes, length] : [length, ...keptSizes];
}

/** Whether a shape has one element for each index of the kept dims; dims of size 1 are ignored. */
export function isKeptShape(shape: Shape, space: FoldSpace): boolean {
  const sizes = otherDims(space.shape.length, space.over).map((dim) => space.shape[dim] as number);
  const withoutOnes = (list: readonly number[]): number[] => list.filter((size) => size !== 1);
  return shape.length <= space.shape.length && sameShape(withoutOnes(shape), withoutOnes(sizes));
}

/** Strides along the kept dims, in the order of the call, of a view whose shape passes {@link isKeptShape}. */
export function keptStrides(view: View, space: FoldSpace): number[] {
  const viewStrides = view.strides.filter((_stride, dim) => view.shape[dim] !== 1);
  const byDim = new Map<number, number>();
  for (const dim of otherDims(space.shape.length, space.over))
    if (space.shape[dim] !== 1) byDim.set(dim, viewStrides[byDim.size] as number);
  return space.kept.map((dim) => byDim.get(dim) ?? 0);
}

/** Strides of a view of the whole shape, in the order of the call. */
export function callStrides(view: View, space: FoldSpace): number[] {
  const outer = space.kept.map((dim) => (view.shape[dim] === 1 ? 0 : (view.strides[dim] as number)));
  const over = strideOver(view, space) as number;
  return space.form === "rows" ? [...outer, over] : [over, ...outer];
}

/** Whether the innermost stride of a view of the whole shape is 1 or 0. */
export function walksWell(view: View, space: FoldSpace): boolean {
  const over = strideOver(view, space);
  if (over === undefined) return false;
  if (space.form === "rows") return over === 0 || over === 1;
  const inner = space.kept.filter((dim) => space.shape[dim] !== 1).at(-1);
  const stride = inner === undefined ? 0 : (view.strides[inner] as number);
  return stride === 0 || stride === 1;
}

/** Whether a view of the whole shape broadcasts a value with one element for each index of the kept dims. */
export function repeats(view: View, value: View, space: FoldSpace): boolean {
  if (view.offset !== value.offset || !sameShape(view.shape, space.shape) || !isKeptShape(value.shape, space))
    return false;
  const expected = keptStrides(value, space);
  const isBroadcast = space.over.every((dim) => view.shape[dim] === 1 || view.strides[dim] === 0);
  return (
    isBroadcast && space.kept.every((dim, index) => view.shape[dim] === 1 || view.strides[dim] === expected[index])
  );
}
