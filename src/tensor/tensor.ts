/// <reference lib="esnext.disposable" preserve="true" />
/** @module The tensor: a concrete value or a node of a function being traced; code that uses it never knows which. */

import { isHere, readValue, readValueSync, type Value } from "../compile/value.ts";
import type { BigArray, DType, TypedArray } from "../ir/dtype.ts";
import type { Node } from "../ir/node.ts";
import { formatType, type Shape, type TensorType } from "../ir/shape.ts";
import { currentTrace } from "../ir/trace.ts";
import * as ops from "../ops/index.ts";
import { HeddleError, toldBy } from "../util/errors.ts";
import { shown } from "../util/show.ts";
import { speakerNow, speakingAs } from "../util/source.ts";
import { runEager, scalarValue, trimmed } from "./eager.ts";
import { checkOne, conditionMethod, inspectMethod, inspectTensor, noCondition, noJson } from "./inspect.ts";
import { type NestedValues, nestedValues } from "./nested-values.ts";
import { deviceRuntime } from "./runtime.ts";
import { captureNode, isTracing, nodeHere } from "./tracing.ts";
import { Permuted } from "./views.ts";

/** A tensor, or a number or bigint that takes its dtype from the other operand. */
export type TensorLike = Tensor | number | bigint;

/** What tensors of every copy of the package have. */
const brand = Symbol.for("heddle.tensor");

/** What a failed deep comparison shows. */
const identity = "identity (heddle/testing compares values)";
let tensorsMade = 0;

/**
 * An n-dimensional array of one dtype. Operations never change a tensor; they make new ones. At top level they run at
 * once (enqueued, not awaited); inside `jit`, `grad` and `train` they are traced into a graph. A method does what the exported
 * function of its name says, with this tensor as the first operand.
 */
export class Tensor {
  /** Sizes of the dims; of a scalar none. */
  readonly shape: Shape;
  /** What the elements are: `"f32"`, `"i32"`, `"bool"`, … */
  readonly dtype: DType;
  /** Own and enumerable, so that no deep comparison takes two tensors for equal by all but their values, which it cannot see. */
  readonly [identity] = ++tensorsMade;
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

  /** A tensor of a concrete value: for those who extend Heddle. */
  static ofValue(value: Value): Tensor {
    return new Tensor(value.type, value);
  }

  /** A tensor of a node of the trace in progress: for those who extend Heddle. */
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

  /** Whether it is part of a function being traced, and has no value yet. */
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

  /** Like {@link Tensor.item}, blocking. */
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

  /** @internal What a condition outside of "use heddle" asks: nobody wants to know whether the result of a comparison is there. */
  [conditionMethod](what: string, where: string): void {
    if (this.dtype === "bool") throw noCondition(this, what, where);
  }

  /** What a REPL and `console.log` show: type, and the values that are there. */
  [inspectMethod](): string {
    return inspectTensor(this, this.held, this.gone);
  }

  /**
   * Not for tensors.
   *
   * @throws HeddleError `trace`: what JSON is to hold is read first, as `await x.array()`.
   */
  toJSON(): never {
    throw noJson(this);
  }

  /** Type and shape: `Tensor(f32[2,3])`. Values are in {@link Tensor.array}. */
  toString(): string {
    return `Tensor(${formatType(this)})`;
  }
}

/** Whether a value is a tensor; the leaf test of parameter trees. */
export const isTensor = (value: unknown): value is Tensor => value instanceof Tensor;

/** Whether a value is a tensor of another copy of this package in the process. */
const isForeign = (value: unknown): boolean =>
  typeof value === "object" && value !== null && brand in value && !isTensor(value);

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
