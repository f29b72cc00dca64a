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
import { type Speaker, speakerNow, speakingAs } from "../util/source.ts";
import { Cache } from "./cache.ts";
import { runEager, scalarValue, trimmed } from "./eager.ts";
import { checkOne, conditionMethod, inspectMethod, inspectTensor, noCondition, noJson } from "./inspect.ts";
import { type NestedValues, nestedValues } from "./nested-values.ts";
import { deviceRuntime } from "./runtime.ts";
import { captureNode, nodeHere } from "./tracing.ts";

/** A tensor, or a number or bigint that takes its dtype from the other operand. */
export type TensorLike = Tensor | number | bigint;

/** A property that tensors of every copy of the package have. */
const brand = Symbol.for("heddle.tensor");

/** The name of a property that failed deep comparisons show. */
const identity = "identity (heddle/testing compares values)";
let tensorsMade = 0;

/**
 * An n-dimensional array of one dtype. Operations never change a tensor; they make new ones. At top level they run at
 * once (enqueued, not awaited); inside `jit`, `grad` and `train` they are traced into a graph. A method is the exported
 * function of its name, with this tensor as the first operand.
 */
export class Tensor {
  /** The sizes of the dims; empty for a scalar. */
  readonly shape: Shape;
  /** The dtype of the elements: `"f32"`, `"i32"`, `"bool"`, … */
  readonly dtype: DType;
  /** An own, enumerable property: without it, deep comparisons, which cannot see values, would take different tensors for equal. */
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

  /** A tensor of a concrete value, for extensions of Heddle. */
  static ofValue(value: Value): Tensor {
    return new Tensor(value.type, value);
  }

  /** A tensor of a node of the trace in progress, for extensions of Heddle. */
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

  /** The node of this tensor in the trace in progress. @throws HeddleError `trace` if no function is being traced */
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
   * @throws HeddleError `layout` if this process holds only a part; `trace` in a traced function; `disposed` afterwards; the error of the run that made the value.
   */
  data(): Promise<TypedArray>;
  data<A extends TypedArray | BigArray>(): Promise<A>;
  data(): Promise<unknown> {
    return readValue(this.value);
  }

  /** Like {@link Tensor.data}, but blocking. */
  dataSync(): TypedArray;
  dataSync<A extends TypedArray | BigArray>(): A;
  dataSync(): unknown {
    return readValueSync(this.value);
  }

  /**
   * The elements in nested arrays: numbers, bigints for i64 and u64, booleans for bool; a scalar gives its value.
   *
   * @throws HeddleError as {@link Tensor.data} does.
   */
  async array(): Promise<NestedValues> {
    return nestedValues(this, await this.data());
  }

  /** Like {@link Tensor.array}, but blocking. */
  arraySync(): NestedValues {
    return nestedValues(this, this.dataSync());
  }

  /** The only element; a bigint for i64 and u64: `item<bigint>()`. @throws HeddleError `shape` unless there is one element; others as {@link Tensor.data} */
  item(): Promise<number>;
  item<N extends number | bigint>(): Promise<N>;
  async item(): Promise<unknown> {
    checkOne(this);
    return (await this.data())[0];
  }

  /** Like {@link Tensor.item}, but blocking. */
  itemSync(): number;
  itemSync<N extends number | bigint>(): N;
  itemSync(): unknown {
    checkOne(this);
    return this.dataSync()[0];
  }

  /**
   * Frees the memory now instead of when the tensor is collected; memory that views share is freed with the last of them. Harmless
   * when repeated.
   */
  dispose(): void {
    const { held } = this;
    if (held !== undefined && !("op" in held)) for (const shard of held.held ?? held.shards) shard.dispose();
    this.held = undefined;
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  /** Marks the memory as donated to a step; the function that it returns undoes the mark. */
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

  /** Refuses tensors as numbers and in comparisons: `x > 0` would silently always be false. */
  [Symbol.toPrimitive](hint: string): string {
    if (hint === "string") return this.toString();
    throw new HeddleError("trace", `${formatType(this)} cannot be used as a number or in a comparison`, {
      hint: "write the operators as methods and functions: x.add(y), x.gt(y), x.ne(y), x.cast(dtype), and(x, y), select(test, x, y); item() gives the value of a scalar",
    });
  }

  /** @internal Called by conditions outside of "use heddle": a bool tensor there is the result of a comparison, whose value is meant. */
  [conditionMethod](what: string, where: string): void {
    if (this.dtype === "bool") throw noCondition(this, what, where);
  }

  /** The text of a REPL and `console.log`: the type, and the values if they are at hand. */
  [inspectMethod](): string {
    return inspectTensor(this, this.held, this.gone);
  }

  /**
   * Not for tensors.
   *
   * @throws HeddleError `trace`: read the values first, as `await x.array()`.
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

/** A comparison; integers compared with any number become a comparison with a number of their dtype. */
export function compared(name: ops.Comparison, x: TensorLike, y: TensorLike): Tensor {
  const [op, left, right] = ops.comparable(name, x, y);
  return operate(op, ops.comparisons[op], [left, right]);
}

/**
 * Applies a function over nodes to tensors: in the trace in progress, or eagerly as a cached program.
 * `name` and the static arguments identify the function in the cache.
 */
export function operate<Statics extends readonly unknown[]>(
  name: string,
  // Operands are nodes or numbers, in the order of `operands`.
  build: (...inputs: never[]) => Node,
  operands: readonly TensorLike[],
  ...statics: Statics
): Tensor {
  return operateAll(name, build, operands, ...statics)[0] as Tensor;
}

/** {@link operate} for functions with several results. */
export function operateAll<Statics extends readonly unknown[]>(
  name: string,
  build: (...inputs: never[]) => Node | readonly Node[],
  operands: readonly TensorLike[],
  ...statics: Statics
): Tensor[] {
  const speaker = speakerOf(name);
  return speakingAs(speakerNow() ?? speaker, () => operateNamed(name, speaker.name, build, operands, statics));
}

/** The elements, for a check of values; undefined for a traced tensor, and for one that is not all in this process. */
export const valuesAtHand = (x: Tensor): ReturnType<Tensor["dataSync"]> | undefined =>
  x.isTraced || !isHere(x.value) ? undefined : x.dataSync();

/** Checks a tensor. @throws HeddleError `argument` */
export function checkTensor(name: string, x: unknown): asserts x is Tensor {
  if (!isTensor(x)) checkOperands(name, [x, x]);
  if (!isTensor(x)) throw new HeddleError("argument", `${name}: takes a tensor, got ${shown(x)}`);
}

/** Checks that all operands are tensors or numbers, and at least one is a tensor. @throws HeddleError `argument` */
function checkOperands(name: string, operands: readonly unknown[]): void {
  let tensors = 0;
  operands.forEach((operand, index) => {
    if (isTensor(operand)) tensors++;
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
  if (tensors > 0 || operands.length === 0) return;
  throw new HeddleError("argument", `${name}: takes at least one tensor, got ${operands.map(shown).join(", ")}`);
}

function operateNamed(
  name: string,
  called: string,
  build: (...inputs: never[]) => Node | readonly Node[],
  operands: readonly TensorLike[],
  statics: readonly unknown[],
): Tensor[] {
  checkOperands(called, operands);
  const apply = (nodes: readonly ops.Operand[]): readonly Node[] => {
    try {
      const made = build(...([...nodes, ...trimmed(statics)] as never[]));
      return Array.isArray(made) ? made : [made as Node];
    } catch (error) {
      throw misuse(called, error, operands, statics);
    }
  };
  if (currentTrace() !== undefined) {
    return apply(operands.map((operand) => (isTensor(operand) ? operand.node : operand))).map(Tensor.ofNode);
  }
  const tensors = operands.filter(isTensor);
  const runtime = tensors[0]?.value.runtime ?? deviceRuntime();
  // The last tensor has the dtype for numbers: the first operand of a selection is its condition, a bool.
  const like = tensors.at(-1) as Tensor;
  // Numbers are inputs too: a loop with a changing number must not compile each time.
  const values = operands.map((operand) =>
    isTensor(operand) ? operand.value : scalarValue(called, runtime, like.dtype, operand),
  );
  return runEager(name, runtime, values, statics, apply).map(Tensor.ofValue);
}

/** The function that users call, from a name with more parts: `einsum ij->ji`, `roll#3`. Names may contain attributes. */
const speakerOf = (name: string): Speaker =>
  speakers.of(speakers, name, () => ({ name: name.split(/[ #]/)[0] as string }));

const speakers = new Cache<Speaker>(1024);

/** The error of a call that cannot be built; JavaScript's own TypeErrors name neither function nor argument. */
function misuse(name: string, error: unknown, operands: readonly TensorLike[], statics: readonly unknown[]): unknown {
  if (!(error instanceof TypeError)) return toldBy(name, error);
  const number = operands.find((operand) => !isTensor(operand));
  if (number !== undefined)
    return new HeddleError("argument", `${name}: takes a tensor, got ${shown(number)}`, { cause: error });
  if (statics.length === 0) return error;
  return new HeddleError("argument", `${name}: cannot take ${statics.map(shown).join(", ")}`, { cause: error });
}
