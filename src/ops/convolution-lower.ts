/** @module How convolutions become calls of native kernels: channels last, three spatial dims, groups. */
import { type KernelCall, type KernelContext, permuteView, type View } from "../ir/kernel.ts";
import { type Shape, stridesOf, type TensorType } from "../ir/shape.ts";
import { conv, convFilter, convGroups, convGroupsFilter } from "../kernels/index.ts";
import { HeddleError } from "../util/errors.ts";
import { copyCall } from "./movement.ts";

export type ConvAttrs = {
  layout: string;
  strides: readonly number[];
  padding: readonly (readonly [number, number])[];
  inputDilation: readonly number[];
  kernelDilation: readonly number[];
};

export interface ConvDims {
  /** Letters of each operand. */
  readonly x: string;
  readonly kernel: string;
  readonly out: string;
  readonly spatial: readonly string[];
  /** Whether there is a dim of groups, `g`. */
  readonly grouped: boolean;
}

/** The parts of a layout such as `bf01,oi01->bf01`. @throws HeddleError `op` if one of the three operands is missing. */
export function convDims(layout: string): ConvDims {
  const [left, out] = layout.split("->");
  const [x, kernel] = (left ?? "").split(",");
  if (x === undefined || kernel === undefined || out === undefined)
    throw new HeddleError("op", `conv: '${layout}' is not a layout`);
  const spatial = [...x].filter((letter) => letter >= "0" && letter <= "9").sort();
  return { x, kernel, out, spatial, grouped: x.includes("g") };
}

export const sizeAt = (shape: Shape, letters: string, letter: string): number =>
  shape[letters.indexOf(letter)] as number;

export const orderFor = (letters: string, wanted: string): number[] =>
  [...wanted].map((letter) => letters.indexOf(letter));

/** The kernel that computes a convolution. */
export type ConvForm = "conv" | "convFilter" | "convGroups" | "convGroupsFilter";

/** The most products of channels within a group for which the groups fill vector lanes better than the channels. */
const fewChannels = 16;

/**
 * Filter forms are for windows larger than the output, as in gradients by the kernel: they multiply transposed columns by the
 * cotangent. Many groups of few channels have kernels in which the groups are the lanes of vectors.
 */
export function convForm(dims: ConvDims, kernel: Shape, out: Shape): ConvForm {
  const spatialSize = (shape: Shape, letters: string): number =>
    dims.spatial.reduce((size, digit) => size * sizeAt(shape, letters, digit), 1);
  const filter = spatialSize(kernel, dims.kernel) > spatialSize(out, dims.out);
  // Filter forms swap batch and channels.
  const channels = filter ? sizeAt(out, dims.out, "b") : sizeAt(kernel, dims.kernel, "i");
  const within = channels * sizeAt(kernel, dims.kernel, "o");
  const lanes = dims.grouped && within <= fewChannels && sizeAt(kernel, dims.kernel, "g") > within;
  if (filter) return lanes ? "convGroupsFilter" : "convFilter";
  return lanes ? "convGroups" : "conv";
}

/** Order of dims, by letters, in which a kernel reads x and the weights (`undefined`: any) and writes its results. */
export function convOrders(
  form: ConvForm,
  { spatial, grouped }: ConvDims,
): { readonly x: string; readonly kernel: string | undefined; readonly out: string } {
  const digits = spatial.join("");
  const g = grouped ? "g" : "";
  const orders = {
    conv: { x: `b${digits}${g}f`, kernel: undefined, out: `b${digits}${g}f` },
    convFilter: { x: `f${digits}${g}b`, kernel: `i${digits}${g}o`, out: `${g}${digits}bf` },
    convGroups: { x: `b${digits}fg`, kernel: `${digits}iog`, out: `b${digits}fg` },
    convGroupsFilter: { x: `f${digits}bg`, kernel: `i${digits}og`, out: `${digits}bfg` },
  };
  return orders[form];
}

/** Channels last, as the kernels write. */
export function convOutputOrder(attrs: ConvAttrs, inputs: readonly View[], output: TensorType): number[] {
  const dims = convDims(attrs.layout);
  const form = convForm(dims, (inputs[1] as View).shape, output.shape);
  return orderFor(dims.out, convOrders(form, dims).out);
}

/** The view with dims in the wanted order of letters; a letter that the view lacks becomes a dim of size 1. */
function arranged(view: View, letters: string, wanted: string): View {
  const known = [...wanted].filter((letter) => letters.includes(letter)).join("");
  const moved = permuteView(view, orderFor(letters, known));
  const spread = (list: readonly number[], missing: number): number[] =>
    [...wanted].map((letter) => (known.includes(letter) ? (list[known.indexOf(letter)] as number) : missing));
  return { ...moved, shape: spread(moved.shape, 1), strides: spread(moved.strides, 0) };
}

const isDense = ({ shape, strides }: View): boolean => {
  const dense = stridesOf(shape);
  return strides.every((stride, dim) => stride === dense[dim] || shape[dim] === 1);
};

const three = <T>(list: readonly T[], neutral: T): T[] => [...new Array<T>(3 - list.length).fill(neutral), ...list];

/** Fields of a call that all forms have, besides sizes; filter forms swap strides and kernel dilation. */
function convFields(attrs: ConvAttrs, filter: boolean) {
  const [strides, kernelDilation] = filter
    ? [attrs.kernelDilation, attrs.strides]
    : [attrs.strides, attrs.kernelDilation];
  return {
    strides: three(strides, 1),
    padding: three<readonly [number, number]>(attrs.padding, [0, 0]),
    inputDilation: three(attrs.inputDilation, 1),
    kernelDilation: three(kernelDilation, 1),
  };
}

/** The order with three spatial dims, as the kernels have: the layout's digits, after letters for missing dims. */
function threeDigits(order: string, spatial: readonly string[]): string {
  const digits = spatial.join("");
  const missing = "xyz".slice(0, 3 - spatial.length);
  return digits === "" ? order : order.replace(digits, `${missing}${digits}`);
}

const forward = { conv, convGroups };
const filters = { convFilter, convGroupsFilter };

export function lowerConv(context: KernelContext<ConvAttrs>): KernelCall[] {
  const { attrs } = context;
  const dims = convDims(attrs.layout);
  const rank = dims.spatial.length;
  if (rank < 1 || rank > 3) throw new HeddleError("lower", `conv: no native kernel for ${rank} spatial dims`);
  const [x, kernel] = context.inputs as [View, View];
  const out = context.outputs[0] as View;
  const form = convForm(dims, kernel.shape, out.shape);
  const orders = convOrders(form, dims);
  const wide = (order: string): string => {
    const full = threeDigits(order, dims.spatial);
    return full.includes("g") ? full : withGroup(full, form, order === orders.kernel || order === kernelOrder);
  };
  const kernelOrder = `${dims.grouped ? "g" : ""}${dims.spatial.join("")}io`;
  const input = context.contiguous(arranged(x, dims.x, wide(orders.x)));
  const target = arranged(out, dims.out, wide(orders.out));
  const result = isDense(target) ? target : context.temporary({ shape: target.shape, dtype: target.dtype });
  const filter = form === "convFilter" || form === "convGroupsFilter";
  const weight = arranged(kernel, dims.kernel, wide(orders.kernel ?? kernelOrder));
  const dense = form === "conv" ? { view: weight, calls: [] } : context.contiguous(weight);
  const sizes = sizesOf(form, input.view.shape, dense.view.shape, result.shape);
  const { slots } = context;
  const fields = {
    dtype: x.dtype,
    ...sizes,
    ...convFields(attrs, filter),
    slots,
    x: context.at(input.view),
    out: context.at(result),
  };
  const second = context.at(dense.view);
  const call =
    form === "conv" || form === "convGroups"
      ? forward[form].scratched(context, { ...fields, weight: { at: second, strides: dense.view.strides } })
      : filters[form].scratched(context, { ...fields, dy: second });
  const calls = [...input.calls, ...dense.calls, call];
  return result === target ? calls : [...calls, copyCall(context, result, target)];
}

/** The order with a group dim of size 1 at the position where the kernel has it. */
function withGroup(order: string, form: ConvForm, isKernel: boolean): string {
  if (form === "conv" && isKernel) return `g${order}`;
  if (form === "convFilter" && order.endsWith("bf")) return `g${order}`;
  return `${order.slice(0, -1)}g${order.slice(-1)}`;
}

/** Sizes of one image, its weights and its result, as the kernels name them. */
function sizesOf(form: ConvForm, x: Shape, kernel: Shape, out: Shape) {
  type Dims = readonly [number, number, number, number, number, number];
  const filter = form === "convFilter" || form === "convGroupsFilter";
  const lanes = form === "convGroups" || form === "convGroupsFilter";
  const [weight, output] = filter ? [out, kernel] : [kernel, out];
  const [n, d, h, w, left, right] = x as Dims;
  const [g, c] = lanes ? [right, left] : [left, right];
  const [, kd, kh, kw] = (lanes ? [g, ...weight] : weight) as Dims;
  const [, od, oh, ow] = output as Dims;
  return { n, g, d, h, w, c, kd, kh, kw, o: kernel[lanes ? 4 : 5] as number, od, oh, ow };
}
