/** @module How windowed ops become calls of native kernels. */
import { denseOrder, isContiguous, type KernelCall, type KernelContext, permuteView, type View } from "../ir/kernel.ts";
import { range, sizeOf } from "../ir/shape.ts";
import * as kernels from "../kernels/index.ts";
import { HeddleError } from "../util/errors.ts";
import { copyCall } from "./movement.ts";
import type { Combination } from "./reduce.ts";

/** Attributes of the windowed ops. */
export type WindowAttrs = {
  op: Combination;
  window: readonly number[];
  strides: readonly number[];
  padding: readonly (readonly [number, number])[];
  /** Distances of the elements of a window; 1 by default. */
  dilation?: readonly number[];
};

export const untouched = (attrs: WindowAttrs, dim: number): boolean =>
  attrs.window[dim] === 1 && attrs.strides[dim] === 1 && attrs.padding[dim]?.[0] === 0 && attrs.padding[dim]?.[1] === 0;

/**
 * The order in which the kernels take dims: the input's memory order, if the windowed dims are adjacent and ascending in it (so
 * that the first of ties is the same); else row-major, with the windowed dims last if they are too far apart.
 */
export function windowOrder(attrs: WindowAttrs, [input]: readonly View[]): number[] {
  const rank = (input as View).shape.length;
  const order = denseOrder(input as View) ?? range(rank);
  const moving = range(rank).filter((dim) => !untouched(attrs, dim));
  const first = order.indexOf(moving[0] ?? 0);
  if (moving.every((dim, index) => order[first + index] === dim)) return order;
  const reach = (moving.at(-1) as number) - (moving[0] as number) + 1;
  return reach <= slides ? range(rank) : [...range(rank).filter((dim) => untouched(attrs, dim)), ...moving];
}

/** The number of dims over which the kernels slide. */
const slides = 3;

/** The kernels slide over three neighbouring dims; dims before them merge into n, dims after into c. */
export function windowCalls(
  context: KernelContext<WindowAttrs>,
  k: "reduceWindow" | "selectAndScatter" | "windowTake",
): KernelCall[] {
  const attrs = context.attrs;
  const order = windowOrder(attrs, context.inputs);
  const arranged = (index: number): ReturnType<typeof context.contiguous> =>
    context.contiguous(permuteView(context.inputs[index] as View, order));
  const x = arranged(0);
  const source = k === "reduceWindow" ? undefined : arranged(1);
  const target = permuteView(context.outputs[0] as View, order);
  const out = isContiguous(target) ? target : context.temporary(target);
  const windowed = k === "selectAndScatter" && source !== undefined ? source.view.shape : out.shape;
  const { shape } = x.view;
  const moving = order.flatMap((dim, index) => (untouched(attrs, dim) ? [] : [index]));
  const last = moving.at(-1) ?? Math.max(0, shape.length - 1);
  const first = Math.max(0, Math.min(moving[0] ?? last, last - 1));
  const count = last - first + 1;
  if (count > slides) throw new HeddleError("lower", `${k}: no native kernel for windows over ${count} dims`);
  /** Entries of the dims that the kernel slides over; missing dims come first. */
  const slid = <T>(list: readonly T[], neutral: T): T[] => [
    ...range(slides - count).map(() => neutral),
    ...list.slice(first, last + 1),
  ];
  const slidAttr = <T>(list: readonly T[], neutral: T): T[] =>
    slid(
      order.map((dim) => list[dim] as T),
      neutral,
    );
  const [d, h, w] = slid(shape, 1) as [number, number, number];
  const [od, oh, ow] = slid(windowed, 1) as [number, number, number];
  const fields = {
    // Products are lowered by `windowProducts`.
    op: attrs.op as Exclude<WindowAttrs["op"], "prod">,
    dtype: x.view.dtype,
    n: sizeOf(shape.slice(0, first)),
    ...{ d, h, w, c: sizeOf(shape.slice(last + 1)), od, oh, ow },
    window: slidAttr(attrs.window, 1),
    strides: slidAttr(attrs.strides, 1),
    dilation: attrs.dilation === undefined ? [1, 1, 1] : slidAttr(attrs.dilation, 1),
    padding: slidAttr<readonly [number, number]>(attrs.padding, [0, 0]),
    in: context.at(x.view),
    out: context.at(out),
  };
  const call =
    k === "reduceWindow" || source === undefined
      ? kernels.reduceWindow.call(fields)
      : (k === "windowTake" ? kernels.windowTake : kernels.selectAndScatter).call({
          ...fields,
          source: context.at(source.view),
        });
  return [...x.calls, ...(source?.calls ?? []), call, ...(out === target ? [] : [copyCall(context, out, target)])];
}
