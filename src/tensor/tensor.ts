/// <reference lib="esnext.disposable" preserve="true" />
/** @module The tensor: a concrete value or a node of a function being traced; code that uses it never knows which. */

import type { BigArray, DType, TypedArray } from "../ir/dtype.ts";
import type { Node } from "../ir/node.ts";
import { formatType, type Shape, type TensorType } from "../ir/shape.ts";
import { currentTrace } from "../ir/trace.ts";
import * as ops from "../ops/index.ts";
import { HeddleError, toldBy } from "../util/errors.ts";
import { checkOptions } from "../util/options.ts";
import { shown } from "../util/show.ts";
import { speakerNow, speakingAs } from "../util/source.ts";
import { checkBounds, checkDType, checkShape, checkWhole, checkWide } from "./arguments.ts";
import { runEager, scalarValue, trimmed } from "./eager.ts";
import { checkOne, inspectMethod, inspectTensor, noJson } from "./inspect.ts";
import { type NestedValues, nestedValues } from "./nested-values.ts";
import { deviceRuntime } from "./runtime.ts";
import { captureNode, isTracing, nodeHere } from "./tracing.ts";
import { isHere, readValue, readValueSync, type Value } from "./value.ts";
import { Permuted } from "./views.ts";

/** A tensor, or a number or bigint that takes its dtype from the other operand. */
export type TensorLike = Tensor | number | bigint;

/** Dims to reduce over: one, some; all where none are given. */
export type Dims = number | readonly number[];
/** Options of reductions. */
export interface ReduceOptions {
  /** Reduced dims stay as size 1; default false. */
  readonly keepDims?: boolean;
}

/** Options of sums, products and means. */
export interface SumOptions extends ReduceOptions, WideOptions {}
/** In what sums and products are made. */
export interface WideOptions {
  /** The dtype of the result, to which elements are cast before; default that of x. */
  readonly dtype?: DType;
}

/** What tensors of every copy of the package have. */
const brand = Symbol.for("heddle.tensor");

/**
 * An n-dimensional array of one dtype. Operations never change a tensor; they make new ones. At top level they run at
 * once (enqueued, not awaited); inside `jit`, `grad` and `train` they are traced into a graph. A method does what the exported
 * function of its name says, with this tensor as the first operand.
 */
export class Tensor {
  readonly shape: Shape;
  readonly dtype: DType;
  private held: Value | Node | undefined;
  private gone = "it was disposed";

  /** @internal */
  get [brand](): true {
    return true;
  }

  /** Use {@link Tensor.ofValue} or {@link Tensor.ofNode}, or the functions that create tensors. */
  private constructor(type: TensorType, held: Value | Node) {
    this.shape = type.shape;
    this.dtype = type.dtype;
    this.held = held;
  }

  static ofValue(value: Value): Tensor {
    return new Tensor(value.type, value);
  }

  static ofNode(node: Node): Tensor {
    return new Tensor(node, node);
  }

  /** The concrete value. @throws HeddleError `trace` while traced, `disposed` afterwards. */
  get value(): Value {
    const held = this.contents();
    if ("op" in held) {
      throw new HeddleError("trace", `${formatType(this)} has no value yet: it is part of a function being traced`, {
        hint: "return it from the function and read it there, or use select() instead of if",
      });
    }
    return held;
  }

  /** This tensor in the trace in progress. */
  get node(): Node {
    const held = this.contents();
    return "op" in held ? nodeHere(held) : captureNode(this, this);
  }

  get isTraced(): boolean {
    return this.held !== undefined && "op" in this.held;
  }

  private contents(): Value | Node {
    if (this.held === undefined) throw new HeddleError("disposed", `${formatType(this)} cannot be used: ${this.gone}`);
    return this.held;
  }

  /** Number of elements. */
  get size(): number {
    return this.shape.reduce((product, size) => product * size, 1);
  }

  /**
   * The elements in row-major order; the event loop stays free while they are computed. bool gives bytes of 0 and 1, f16 and
   * bf16 a `Float32Array`, i64 and u64 a `BigInt64Array` and a `BigUint64Array`: `data<BigInt64Array>()`.
   *
   * @throws HeddleError `layout` when this process holds only a part; the error of the run that made the value.
   */
  data(): Promise<TypedArray>;
  data<A extends TypedArray | BigArray>(): Promise<A>;
  data(): Promise<unknown> {
    return readValue(this.value);
  }

  /** Like {@link Tensor.data}, blocking. */
  dataSync(): TypedArray;
  dataSync<A extends TypedArray | BigArray>(): A;
  dataSync(): unknown {
    return readValueSync(this.value);
  }

  /**
   * The elements in nested arrays: numbers, bigints of i64 and u64, booleans of bool; of a scalar the value alone.
   *
   * @throws HeddleError as {@link Tensor.data} does.
   */
  async array(): Promise<NestedValues> {
    return nestedValues(this, await this.data());
  }

  /** Like {@link Tensor.array}, blocking. */
  arraySync(): NestedValues {
    return nestedValues(this, this.dataSync());
  }

  /** The only element; a bigint of i64 and u64: `item<bigint>()`. */
  item(): Promise<number>;
  item<N extends number | bigint>(): Promise<N>;
  async item(): Promise<unknown> {
    checkOne(this);
    return (await this.data())[0];
  }

  itemSync(): number;
  itemSync<N extends number | bigint>(): N;
  itemSync(): unknown {
    checkOne(this);
    return this.dataSync()[0];
  }

  /**
   * Gives the memory back now instead of when the tensor is collected; what views share, with the last of them. Harmless when
   * repeated.
   */
  dispose(): void {
    const { held } = this;
    if (held !== undefined && !("op" in held))
      for (const shard of held instanceof Permuted ? held.held : held.shards) shard.dispose();
    this.held = undefined;
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  /** Marks the memory as given to a step; the result takes that back. */
  markDonated(): () => void {
    const { held, gone } = this;
    const restore = (): void => {
      this.held = held;
      this.gone = gone;
    };
    this.held = undefined;
    this.gone = "its memory was donated to a step; use what the step returned";
    return restore;
  }

  /** Tensors have no order and no number: `x > 0` would be false for ever, without a word. */
  [Symbol.toPrimitive](hint: string): string {
    if (hint === "string") return this.toString();
    throw new HeddleError("trace", `${formatType(this)} cannot be used as a number or in a comparison`, {
      hint: "write the operators as methods and functions: x.add(y), x.gt(y), x.ne(y), x.cast(dtype), and(x, y), select(test, x, y); item() gives the value of a scalar",
    });
  }

  /** What a REPL and `console.log` show: type, and the values that are there. */
  [inspectMethod](): string {
    return inspectTensor(this, this.held, this.gone);
  }

  /** @throws HeddleError `trace`: what JSON is to hold is read first, as `await x.array()`. */
  toJSON(): never {
    throw noJson(this);
  }

  toString(): string {
    return `Tensor(${formatType(this)})`;
  }

  // The operations of functions.ts as methods.
  add(y: TensorLike): Tensor {
    return operate("add", ops.add, [this, y]);
  }
  sub(y: TensorLike): Tensor {
    return operate("sub", ops.sub, [this, y]);
  }
  mul(y: TensorLike): Tensor {
    return operate("mul", ops.mul, [this, y]);
  }
  div(y: TensorLike): Tensor {
    return operate("div", ops.div, [this, y]);
  }
  rem(y: TensorLike): Tensor {
    return operate("rem", ops.rem, [this, y]);
  }
  pow(y: TensorLike): Tensor {
    ops.checkExponent(this, y);
    return operate("pow", ops.pow, [this, y]);
  }
  maximum(y: TensorLike): Tensor {
    return operate("maximum", ops.maximum, [this, y]);
  }
  minimum(y: TensorLike): Tensor {
    return operate("minimum", ops.minimum, [this, y]);
  }
  /** Each element within bounds: the function `clamp`. */
  clamp(low: TensorLike, high: TensorLike): Tensor {
    checkBounds("clamp", low, high);
    return operate("clamp", ops.clamp, [this, low, high]);
  }
  eq(y: TensorLike): Tensor {
    return compared("eq", this, y);
  }
  ne(y: TensorLike): Tensor {
    return compared("ne", this, y);
  }
  lt(y: TensorLike): Tensor {
    return compared("lt", this, y);
  }
  le(y: TensorLike): Tensor {
    return compared("le", this, y);
  }
  gt(y: TensorLike): Tensor {
    return compared("gt", this, y);
  }
  ge(y: TensorLike): Tensor {
    return compared("ge", this, y);
  }
  neg(): Tensor {
    return operate("neg", ops.neg, [this]);
  }
  abs(): Tensor {
    return operate("abs", ops.abs, [this]);
  }
  exp(): Tensor {
    return operate("exp", ops.exp, [this]);
  }
  log(): Tensor {
    return operate("log", ops.log, [this]);
  }
  sqrt(): Tensor {
    return operate("sqrt", ops.sqrt, [this]);
  }
  tanh(): Tensor {
    return operate("tanh", ops.tanh, [this]);
  }
  sigmoid(): Tensor {
    return operate("sigmoid", ops.logistic, [this]);
  }
  relu(): Tensor {
    return operate("relu", ops.relu, [this]);
  }
  not(): Tensor {
    return operate("not", ops.not, [this]);
  }
  cast(dtype: DType): Tensor {
    checkDType("cast", dtype);
    return operate("cast", ops.cast, [this], dtype);
  }
  /** The same bits as another dtype of the same width: the function `bitcast`. */
  bitcast(dtype: DType): Tensor {
    checkDType("bitcast", dtype);
    return operate("bitcast", ops.bitcast, [this], dtype);
  }
  reshape(shape: Shape): Tensor {
    checkShape("reshape", shape, true);
    return operate("reshape", ops.reshape, [this], shape);
  }
  transpose(order?: readonly number[]): Tensor {
    if (order !== undefined) checkWhole("transpose", "order", order);
    return operate("transpose", ops.transpose, [this], order);
  }
  broadcastTo(shape: Shape): Tensor {
    checkShape("broadcastTo", shape);
    return operate("broadcastTo", ops.broadcastTo, [this], shape);
  }
  slice(start: readonly number[], limit: readonly number[], stride?: readonly number[]): Tensor {
    checkWhole("slice", "start", start);
    checkWhole("slice", "limit", limit);
    if (stride !== undefined) checkWhole("slice", "stride", stride);
    return operate("slice", ops.sliceFromEnd, [this], start, limit, stride);
  }
  sum(dims?: Dims, options?: SumOptions): Tensor {
    return wideReduction("sum", ops.sum, this, dims, options);
  }
  mean(dims?: Dims, options?: SumOptions): Tensor {
    return wideReduction("mean", ops.mean, this, dims, options);
  }
  max(dims?: Dims, options?: ReduceOptions): Tensor {
    return reduction("max", ops.max, this, dims, options);
  }
  min(dims?: Dims, options?: ReduceOptions): Tensor {
    return reduction("min", ops.min, this, dims, options);
  }
  argMax(dim?: number): Tensor {
    return operate("argMax", ops.argMax, [this], dim);
  }
  matmul(y: Tensor): Tensor {
    return operate("matmul", ops.matmul, [this, y]);
  }
  softmax(dim?: number): Tensor {
    return operate("softmax", ops.softmax, [this], dim);
  }
}

/** Whether a value is a tensor; the leaf test of parameter trees. */
export const isTensor = (value: unknown): value is Tensor => value instanceof Tensor;

/** Whether a value is a tensor of another copy of this package in the process. */
const isForeign = (value: unknown): boolean =>
  typeof value === "object" && value !== null && brand in value && !isTensor(value);

function reduction(
  name: string,
  build: (x: Node, dims?: Dims, options?: ReduceOptions) => Node,
  x: Tensor,
  dims: Dims | undefined,
  options: ReduceOptions | undefined,
): Tensor {
  if (dims !== undefined) checkWhole(name, "dims", dims, true);
  if (options !== undefined) checkOptions(name, options, ["keepDims"]);
  return operate(name, build, [x], dims, options);
}

/** A reduction that can be told in what dtype to combine. */
export function wideReduction(
  name: string,
  build: (x: Node, dims?: Dims, options?: ReduceOptions) => Node,
  x: Tensor,
  dims: Dims | undefined,
  options: SumOptions = {},
): Tensor {
  if (dims !== undefined) checkWhole(name, "dims", dims, true);
  checkOptions(name, options, ["keepDims", "dtype"]);
  const { dtype, ...rest } = options;
  checkWide(name, dtype);
  const wide = (node: Node, over?: Dims, given?: ReduceOptions, wanted?: DType): Node =>
    build(wanted === undefined ? node : ops.cast(node, wanted), over, given);
  return operate(name, wide, [x], dims, rest, dtype);
}

/** A comparison; one of integers with any number is made one with a number of their dtype. */
export function compared(name: ops.Comparison, x: TensorLike, y: TensorLike): Tensor {
  const [op, left, right] = ops.comparable(name, x, y);
  return operate(op, ops.comparisons[op], [left, right]);
}

/**
 * Applies a function over nodes to tensors: into the trace in progress, or eagerly as a cached program of its own.
 * `name` and the static arguments identify the function in the cache.
 */
export function operate<Statics extends readonly unknown[]>(
  name: string,
  // Operands are nodes or numbers, in the order of `operands`.
  build: (...inputs: never[]) => Node,
  operands: readonly TensorLike[],
  ...statics: Statics
): Tensor {
  return operateAll(name, (...inputs) => [build(...inputs)], operands, ...statics)[0] as Tensor;
}

/** {@link operate} for functions of several results. */
export function operateAll<Statics extends readonly unknown[]>(
  name: string,
  build: (...inputs: never[]) => readonly Node[],
  operands: readonly TensorLike[],
  ...statics: Statics
): Tensor[] {
  const speaker = speakerNow() ?? { name: calledName(name) };
  return speakingAs(speaker, () => operateNamed(name, build, operands, statics));
}

/** Elements for a check of values; undefined where there are none to look at: of a traced tensor, or one in parts elsewhere. */
export const valuesAtHand = (x: Tensor): ReturnType<Tensor["dataSync"]> | undefined =>
  x.isTraced || !isHere(x.value) ? undefined : x.dataSync();

/** @throws HeddleError `argument` unless it is a tensor. */
export function checkTensor(name: string, x: unknown): asserts x is Tensor {
  if (!isTensor(x)) checkOperands(name, [x, x]);
  if (!isTensor(x)) throw new HeddleError("argument", `${name}: takes a tensor, got ${shown(x)}`);
}

/** Throws unless all are tensors or numbers, and at least one a tensor. */
function checkOperands(name: string, operands: readonly unknown[]): void {
  if (operands.length === 0) return;
  operands.forEach((operand, index) => {
    if (isTensor(operand) || typeof operand === "number" || typeof operand === "bigint") return;
    if (isForeign(operand)) {
      throw new HeddleError("argument", `${name}: operand ${index} is a tensor of another copy of Heddle`, {
        hint: "two copies are loaded (npm ls heddle); make a tensor of this one from its data()",
      });
    }
    throw new HeddleError("argument", `${name}: operand ${index} is ${shown(operand)}, not a tensor`, {
      hint: operand === undefined ? "an argument or a parameter is missing" : "make one with tensor(…)",
    });
  });
  if (operands.some(isTensor)) return;
  throw new HeddleError("argument", `${name}: takes at least one tensor, got ${operands.map(shown).join(", ")}`);
}

function operateNamed(
  name: string,
  build: (...inputs: never[]) => readonly Node[],
  operands: readonly TensorLike[],
  statics: readonly unknown[],
): Tensor[] {
  const called = calledName(name);
  checkOperands(called, operands);
  const apply = (nodes: readonly ops.Operand[]): readonly Node[] => {
    try {
      return (build as unknown as (...inputs: unknown[]) => readonly Node[])(...nodes, ...trimmed(statics));
    } catch (error) {
      throw misuse(called, error, operands, statics);
    }
  };
  if (isTracing() || currentTrace() !== undefined) {
    return apply(operands.map((operand) => (isTensor(operand) ? operand.node : operand))).map((node) =>
      Tensor.ofNode(node),
    );
  }
  const first = operands.find(isTensor);
  const runtime = first?.value.runtime ?? deviceRuntime();
  // Of a selection's operands the condition comes first, and it is bool whatever the others are.
  const like = operands.findLast(isTensor) as Tensor;
  // Numbers are inputs too: a loop with a changing number must not compile anew each time.
  const values = operands.map((operand) =>
    isTensor(operand) ? operand.value : scalarValue(called, runtime, like.dtype, operand),
  );
  return runEager(name, runtime, values, statics, apply).map(Tensor.ofValue);
}

/** The function that users call, of a name that may say more: `einsum ij->ji`, `roll#3`. */
function calledName(name: string): string {
  let called = calledNames.get(name);
  if (called === undefined) {
    called = name.split(/[ #]/)[0] as string;
    // Names say attributes too, of which there may be any number.
    if (calledNames.size >= 1024) calledNames.clear();
    calledNames.set(name, called);
  }
  return called;
}

const calledNames = new Map<string, string>();

/** What is wrong with a call that cannot be built; types are not there at run time, and JavaScript's errors name nothing of it. */
function misuse(name: string, error: unknown, operands: readonly TensorLike[], statics: readonly unknown[]): unknown {
  if (!(error instanceof TypeError)) return toldBy(name, error);
  const number = operands.find((operand) => !isTensor(operand));
  if (number !== undefined)
    return new HeddleError("argument", `${name}: takes a tensor, got ${shown(number)}`, { cause: error });
  if (statics.length === 0) return error;
  return new HeddleError("argument", `${name}: cannot take ${statics.map(shown).join(", ")}`, { cause: error });
}
