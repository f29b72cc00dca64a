/** @module How a tensor shows in a REPL and in `console.log`: type and values, abbreviated as NumPy does. */

import { isHere, readValueSync, type Value } from "../compile/value.ts";
import { type DType, isFloat, isHalf, type TypedArray } from "../ir/dtype.ts";
import type { Node } from "../ir/node.ts";
import { bytesOf, formatType, type Shape, sizeOf, stridesOf, type TensorType } from "../ir/shape.ts";
import { formatLayout } from "../plan/layout.ts";
import { HeddleError } from "../util/errors.ts";

/** The name of the method that Node's `util.inspect` asks; other hosts ignore it. */
export const inspectMethod: unique symbol = Symbol.for("nodejs.util.inspect.custom") as never;

/** The name of the method that conditions of transformed user files call; objects without it may be conditions. */
export const conditionMethod: unique symbol = Symbol.for("heddle.condition") as never;

/** Tensors of more elements are abbreviated (NumPy's `threshold`). */
const threshold = 1000;
/** Elements shown at either end of an abbreviated dim (NumPy's `edgeitems`). */
const edge = 3;
/** Larger tensors are not read to be shown. */
const mostBytes = 16 * 2 ** 20;

/**
 * `tensor<f32[2,2]> [[1, 2], …`, with a line for each row; if the values are not at hand, the reason. It never waits and never
 * communicates.
 *
 * @param held undefined if the memory is gone
 * @param gone the reason why it is gone
 */
export function inspectTensor(type: TensorType, held: Value | Node | undefined, gone: string): string {
  const head = `tensor<${formatType(type)}>`;
  const why = absence(type, held, gone);
  if (why !== undefined) return `${head} (${why})`;
  try {
    return `${head} ${formatValues(type.shape, type.dtype, readValueSync(held as Value), head.length + 1)}`;
  } catch (error) {
    // The run that made it has failed; showing a value must not throw.
    return `${head} (failed: ${(error as Error).message.split("\n", 1)[0]})`;
  }
}

/** The error of `JSON.stringify`, which cannot wait for values and would write a tensor's internals. */
export const noJson = (type: TensorType): HeddleError =>
  new HeddleError("trace", `${formatType(type)} cannot be written as JSON`, {
    hint: "write its values: await x.array() in nested arrays, await x.item() of a scalar, Array.from(await x.data()); io.saveTensors writes files",
  });

/** The error of a condition that JavaScript takes for true. */
export const noCondition = (type: TensorType, what: string, where: string): HeddleError =>
  new HeddleError(
    "condition",
    `${what} on ${formatType(type)}: a tensor is an object and therefore always true, whatever its values`,
    {
      where,
      hint:
        "await x.item() gives the value of a scalar (all(x) and any(x) reduce to one), select(test, x, y) chooses by element, " +
        "x !== undefined tests whether there is a tensor; " +
        'functions that say "use heddle" may write conditions on tensors (docs/autograph.md)',
    },
  );

/** Checks that there is one element. It runs before values are computed, so the error has the line of the call. @throws HeddleError `shape` */
export function checkOne(type: TensorType): void {
  const count = sizeOf(type.shape);
  if (count !== 1) throw new HeddleError("shape", `item: ${formatType(type)} has ${count} elements, not one`);
}

/** Why the values cannot be shown; undefined when they can. */
function absence(type: TensorType, held: Value | Node | undefined, gone: string): string | undefined {
  if (held === undefined) return gone.split(";", 1)[0];
  if ("op" in held) return "part of a function being traced";
  if (!isHere(held)) return `${formatLayout(held.layout)}: this process holds a part`;
  if (bytesOf(type) > mostBytes) return "too large to show; await data()";
  return held.shards.every(({ ready }) => ready) ? undefined : "being computed; await data()";
}

/** Nested brackets; lines after the first are indented by `indent`. */
export function formatValues(shape: Shape, dtype: DType, data: TypedArray, indent: number): string {
  const strides = stridesOf(shape);
  const abbreviated = data.length > threshold;
  const text = (dim: number, offset: number): string => {
    if (dim === shape.length) return formatElement(dtype, data[offset] as number);
    const indices = shownPlaces(shape[dim] as number, abbreviated);
    const parts = indices.map((index) =>
      index === undefined ? "..." : text(dim + 1, offset + index * (strides[dim] as number)),
    );
    const inner = shape.length - dim - 1;
    // As in NumPy, one more empty line for each dim beyond a matrix.
    const joint = inner === 0 ? ", " : `,${"\n".repeat(inner)}${" ".repeat(indent + dim + 1)}`;
    return `[${parts.join(joint)}]`;
  };
  return text(0, 0);
}

/** The indices that are shown of a dim; undefined stands for the positions left out. */
function shownPlaces(size: number, abbreviated: boolean): (number | undefined)[] {
  const all = (count: number, from: number): number[] =>
    Array.from({ length: count }, (_unused, index) => from + index);
  if (!abbreviated || size <= 2 * edge) return all(size, 0);
  return [...all(edge, 0), undefined, ...all(edge, size - edge)];
}

function formatElement(dtype: DType, value: number): string {
  if (dtype === "bool") return value === 0 ? "false" : "true";
  if (!isFloat(dtype) || Number.isInteger(value) || !Number.isFinite(value))
    return String(Object.is(value, -0) ? "-0" : value);
  const short = Number(value.toPrecision(dtype === "f64" ? 8 : isHalf(dtype) ? 4 : 6));
  return String(short);
}
