/** @module The operations on tensors, as free functions. */

import { type DType, dtypeOf, dtypes, roundTo, type TypedArray } from "../ir/dtype.ts";
import type { Node } from "../ir/node.ts";
import { formatShape, type Shape, sizeOf } from "../ir/shape.ts";
import * as ops from "../ops/index.ts";
import { HeddleError } from "../util/errors.ts";
import { deviceRuntime } from "./runtime.ts";
import { operate, Tensor, type TensorLike } from "./tensor.ts";
import { replicatedValue } from "./value.ts";

/** Numbers in any nesting; all rows of a level have one length. */
export type NestedNumbers = number | boolean | readonly NestedNumbers[];

interface CreateOptions {
  /** Default f32; for typed arrays, theirs. */
  readonly dtype?: DType;
}

/**
 * Makes a tensor from nested arrays, a number, or a typed array with a shape.
 *
 * @throws HeddleError `shape` when rows differ in length or the shape does not fit.
 * @example tensor([[1, 2], [3, 4]]).shape // [2, 2]
 */
export function tensor(
  data: NestedNumbers | TypedArray,
  options: CreateOptions & { readonly shape?: Shape } = {},
): Tensor {
  const typed = ArrayBuffer.isView(data);
  const shape = options.shape ?? (typed ? [(data as TypedArray).length] : nestedShape(data as NestedNumbers));
  const dtype =
    options.dtype ??
    (typed ? dtypeOf(data as TypedArray) : typeof firstOf(data as NestedNumbers) === "boolean" ? "bool" : "f32");
  const flat: ArrayLike<number> = typed
    ? (data as TypedArray)
    : (data as NestedNumbers[] | number | boolean) === undefined
      ? []
      : flatten(data as NestedNumbers, shape);
  if (flat.length !== sizeOf(shape))
    throw new HeddleError("shape", `tensor: ${flat.length} numbers do not fill ${formatShape(shape)}`);
  const converted =
    typed && dtypeOf(data as TypedArray) === dtype
      ? (data as TypedArray)
      : dtypes[dtype].create(Array.from(flat, (value) => roundTo(dtype, value)));
  return Tensor.ofValue(replicatedValue(deviceRuntime(), { shape, dtype }, converted));
}

const isRow = (data: NestedNumbers): data is readonly NestedNumbers[] => Array.isArray(data);

function nestedShape(data: NestedNumbers): number[] {
  return isRow(data) ? [data.length, ...(data.length === 0 ? [] : nestedShape(data[0] as NestedNumbers))] : [];
}

function firstOf(data: NestedNumbers): number | boolean | undefined {
  return isRow(data) ? (data.length === 0 ? undefined : firstOf(data[0] as NestedNumbers)) : data;
}

function flatten(data: NestedNumbers, shape: Shape): number[] {
  const flat: number[] = [];
  const visit = (part: NestedNumbers, depth: number): void => {
    if (!isRow(part)) {
      if (depth !== shape.length)
        throw new HeddleError("shape", `tensor: rows are nested to different depths (expected ${shape.length})`);
      flat.push(Number(part));
      return;
    }
    if (part.length !== shape[depth])
      throw new HeddleError("shape", `tensor: a row of ${part.length} stands among rows of ${shape[depth]}`);
    for (const item of part) visit(item, depth + 1);
  };
  visit(data, 0);
  return flat;
}

const made = (name: string, build: () => Node, ...key: readonly unknown[]): Tensor => operate(name, build, [], ...key);

/** A tensor of one repeated value. */
export const full = (shape: Shape, value: number, { dtype = "f32" }: CreateOptions = {}): Tensor =>
  made("full", () => ops.full(dtype, shape, value), dtype, shape, String(value));
export const zeros = (shape: Shape, options?: CreateOptions): Tensor => full(shape, 0, options);
export const ones = (shape: Shape, options?: CreateOptions): Tensor => full(shape, 1, options);
export const zerosLike = (x: Tensor): Tensor => full(x.shape, 0, { dtype: x.dtype });
/** `[0, 1, …, count - 1]`. */
export const arange = (count: number, { dtype = "i32" }: CreateOptions = {}): Tensor =>
  made("arange", () => ops.iota(dtype, [count], 0), dtype, count);

type Unary = (x: Tensor) => Tensor;
type Binary = (x: TensorLike, y: TensorLike) => Tensor;
const unary =
  (name: string, build: (x: Node) => Node): Unary =>
  (x) =>
    operate(name, build, [x]);
const binary =
  (name: string, build: (x: ops.Operand, y: ops.Operand) => Node): Binary =>
  (x, y) =>
    operate(name, build, [x, y]);

export const neg: Unary = unary("neg", ops.neg);
export const abs: Unary = unary("abs", ops.abs);
export const sign: Unary = unary("sign", ops.sign);
export const exp: Unary = unary("exp", ops.exp);
export const expm1: Unary = unary("expm1", ops.expm1);
export const log: Unary = unary("log", ops.log);
export const log1p: Unary = unary("log1p", ops.log1p);
export const sqrt: Unary = unary("sqrt", ops.sqrt);
export const rsqrt: Unary = unary("rsqrt", ops.rsqrt);
export const tanh: Unary = unary("tanh", ops.tanh);
export const sigmoid: Unary = unary("sigmoid", ops.logistic);
export const softplus: Unary = unary("softplus", ops.softplus);
export const erf: Unary = unary("erf", ops.erf);
export const sin: Unary = unary("sin", ops.sin);
export const cos: Unary = unary("cos", ops.cos);
export const floor: Unary = unary("floor", ops.floor);
export const ceil: Unary = unary("ceil", ops.ceil);
export const round: Unary = unary("round", ops.round);
export const not: Unary = unary("not", ops.not);
export const isFinite: Unary = unary("isFinite", ops.isFinite);
export const relu: Unary = unary("relu", ops.relu);

export const add: Binary = binary("add", ops.add);
export const sub: Binary = binary("sub", ops.sub);
export const mul: Binary = binary("mul", ops.mul);
export const div: Binary = binary("div", ops.div);
export const rem: Binary = binary("rem", ops.rem);
export const pow: Binary = binary("pow", ops.pow);
export const maximum: Binary = binary("maximum", ops.maximum);
export const minimum: Binary = binary("minimum", ops.minimum);
export const and: Binary = binary("and", ops.and);
export const or: Binary = binary("or", ops.or);
export const xor: Binary = binary("xor", ops.xor);
export const eq: Binary = binary("eq", ops.eq);
export const ne: Binary = binary("ne", ops.ne);
export const lt: Binary = binary("lt", ops.lt);
export const le: Binary = binary("le", ops.le);
export const gt: Binary = binary("gt", ops.gt);
export const ge: Binary = binary("ge", ops.ge);

/** `condition ? onTrue : onFalse`, elementwise, with broadcasting; the condition is bool. */
export const select = (condition: Tensor, onTrue: TensorLike, onFalse: TensorLike): Tensor =>
  operate("select", ops.select, [condition, onTrue, onFalse]);
export const cast = (x: Tensor, dtype: DType): Tensor => x.cast(dtype);
/** Another shape for the same elements; one size may be -1. */
export const reshape = (x: Tensor, shape: Shape): Tensor => x.reshape(shape);
/** Output dim i is input dim order[i]; all dims reversed by default. */
export const transpose = (x: Tensor, order?: readonly number[]): Tensor => x.transpose(order);
export const broadcastTo = (x: Tensor, shape: Shape): Tensor => x.broadcastTo(shape);
export const slice = (
  x: Tensor,
  start: readonly number[],
  limit: readonly number[],
  stride?: readonly number[],
): Tensor => x.slice(start, limit, stride);
export const concat = (inputs: readonly Tensor[], dim = 0): Tensor => operate("concat", buildConcat, inputs, dim);

/** The dim comes last, after however many inputs there are. */
const buildConcat = (...given: (Node | number)[]): Node =>
  ops.concat(given.slice(0, -1) as Node[], given.at(-1) as number);
export const reverse = (x: Tensor, dims: readonly number[]): Tensor => operate("reverse", ops.reverse, [x], dims);
/** Pads with a value: `amounts[dim] = [low, high]`. */
export const pad = (x: Tensor, amounts: readonly (readonly [number, number])[], value = 0): Tensor =>
  operate(
    `pad${value}`,
    (node: Node, list: readonly (readonly [number, number])[]) =>
      ops.pad(
        node,
        ops.constant(node.dtype, value),
        list.map(([low]) => low),
        list.map(([, high]) => high),
      ),
    [x],
    amounts,
  );

export type Dims = number | readonly number[];
interface ReduceOptions {
  /** Reduced dims stay as size 1. */
  readonly keepDims?: boolean;
}
export const sum = (x: Tensor, dims?: Dims, options?: ReduceOptions): Tensor => x.sum(dims, options);
export const mean = (x: Tensor, dims?: Dims, options?: ReduceOptions): Tensor => x.mean(dims, options);
export const max = (x: Tensor, dims?: Dims, options?: ReduceOptions): Tensor => x.max(dims, options);
export const min = (x: Tensor, dims?: Dims, options?: ReduceOptions): Tensor => x.min(dims, options);
/** Index (i32) of the largest element along a dim (default the last): the first of ties, the first NaN. */
export const argMax = (x: Tensor, dim?: number): Tensor => x.argMax(dim);
export const matmul = (x: Tensor, y: Tensor): Tensor => x.matmul(y);
export const softmax = (x: Tensor, dim?: number): Tensor => x.softmax(dim);
export const logSoftmax = (x: Tensor, dim?: number): Tensor => operate("logSoftmax", ops.logSoftmax, [x], dim);
export const logSumExp = (x: Tensor, dim?: number, options?: ReduceOptions): Tensor =>
  operate("logSumExp", ops.logSumExp, [x], dim, options);
/** Cross-entropy per row of logits [rows…, classes] with i32 labels [rows…]. */
export const softmaxCrossEntropy = (logits: Tensor, labels: Tensor): Tensor =>
  operate("softmaxCrossEntropy", ops.softmaxCrossEntropy, [logits, labels]);
/** Elements at the i32 `indices` along a dim. */
export const take = (x: Tensor, indices: Tensor, dim = 0): Tensor => operate("take", ops.take, [x, indices], dim);
/** Rows by index after `batchDims` common dims. */
export const gather = (x: Tensor, indices: Tensor, batchDims = 0): Tensor =>
  operate("gather", ops.gather, [x, indices], batchDims);
export const oneHot = (indices: Tensor, classes: number, { dtype = "f32" }: CreateOptions = {}): Tensor =>
  operate("oneHot", ops.oneHot, [indices], classes, dtype);
export const dotGeneral = (x: Tensor, y: Tensor, dims: Parameters<typeof ops.dotGeneral>[2]): Tensor =>
  operate("dotGeneral", ops.dotGeneral, [x, y], dims);

/** One number for all spatial dims, one per dim, low and high per dim, or by the rule of TensorFlow. */
export type Padding = number | readonly (number | readonly [number, number])[] | "same" | "valid";

interface WindowOptions {
  readonly strides?: number | readonly number[];
  readonly padding?: Padding;
}

const perSpatial = (value: number | readonly number[]): number[] =>
  typeof value === "number" ? [value, value] : [...value];

function padding2d(
  padding: Padding,
  sizes: readonly number[],
  spans: readonly number[],
  strides: readonly number[],
): [number, number][] {
  if (padding === "valid") return spans.map(() => [0, 0]);
  if (padding === "same") {
    return spans.map((span, dim) => {
      const [size, stride] = [sizes[dim] as number, strides[dim] as number];
      const total = Math.max(0, (Math.ceil(size / stride) - 1) * stride + span - size);
      return [Math.floor(total / 2), Math.ceil(total / 2)];
    });
  }
  const list = typeof padding === "number" ? spans.map(() => padding) : padding;
  return list.map((amount) => (typeof amount === "number" ? [amount, amount] : [amount[0], amount[1]]));
}

/** Options of {@link conv2d}. */
export interface Conv2dOptions extends WindowOptions {
  readonly dilation?: number | readonly number[];
  /** Which dim plays which part; default PyTorch's `"bf01,oi01->bf01"`. */
  readonly layout?: string;
}

/** 2-D convolution of x [batch, features, height, width] by weight [out, in, kernel height, kernel width]. */
export function conv2d(x: Tensor, weight: Tensor, options: Conv2dOptions = {}): Tensor {
  return operate("conv2d", buildConv2d, [x, weight], options);
}

function buildConv2d(x: Node, weight: Node, options: Conv2dOptions = {}): Node {
  const layout = options.layout ?? "bf01,oi01->bf01";
  const dims = ops.convDims(layout);
  const strides = perSpatial(options.strides ?? 1);
  const kernelDilation = perSpatial(options.dilation ?? 1);
  const sizes = dims.spatial.map((digit) => x.shape[dims.x.indexOf(digit)] as number);
  const spans = dims.spatial.map(
    (digit, dim) => ((weight.shape[dims.kernel.indexOf(digit)] as number) - 1) * (kernelDilation[dim] as number) + 1,
  );
  const padding = padding2d(options.padding ?? 0, sizes, spans, strides);
  return ops.call("conv", [x, weight], { layout, strides, padding, inputDilation: [1, 1], kernelDilation });
}

/** Largest element of each window over the last two dims; strides are the window's size by default. */
export function maxPool2d(x: Tensor, window: number | readonly number[], options: WindowOptions = {}): Tensor {
  return operate("maxPool2d", buildMaxPool2d, [x], window, options);
}

function buildMaxPool2d(x: Node, window: number | readonly number[], options: WindowOptions = {}): Node {
  const rank = x.shape.length;
  if (rank < 2) throw new HeddleError("shape", `maxPool2d: needs at least two dims, got ${formatShape(x.shape)}`);
  const sizes = perSpatial(window);
  const strides = perSpatial(options.strides ?? window);
  const padding = padding2d(options.padding ?? 0, x.shape.slice(-2), sizes, strides);
  const lead = x.shape.slice(0, -2);
  return ops.call("reduceWindow", [x], {
    op: "max",
    window: [...lead.map(() => 1), ...sizes],
    strides: [...lead.map(() => 1), ...strides],
    padding: [...lead.map((): [number, number] => [0, 0]), ...padding],
  });
}
