/** @module Eager calls: each runs a cached program, found by types, layouts and other arguments, or gives a view of its operand. */

import { Link } from "../chains/chains.ts";
import { type Compiled, compileGraph, runCompiled } from "../compile/compile.ts";
import { replicatedValue, type Value } from "../compile/value.ts";
import { type DType, dtypes, isLong } from "../ir/dtype.ts";
import type { Node } from "../ir/node.ts";
import { formatType, type TensorType } from "../ir/shape.ts";
import * as ops from "../ops/index.ts";
import { formatLayout } from "../plan/layout.ts";
import type { Runtime } from "../runtime/devices.ts";
import { flattenTree, isLike, isRecord, type TreeShape, treeKey } from "../util/tree.ts";
import { Cache } from "./cache.ts";
import { traceFunction } from "./tracing.ts";
import { hasParts, type MemoryView, memoryViews, Permuted, valueAt } from "./views.ts";

const scalars = new Cache<Value>(256);

/** A number as a scalar of the other operand's dtype. */
export function scalarValue(name: string, runtime: Runtime, dtype: DType, number: number | bigint): Value {
  // A map takes -0 for 0.
  const isPlain = typeof number === "number" && !Object.is(number, -0);
  const kind = isPlain ? dtype : `${dtype} ${typeof number === "bigint" ? number : "-0"}`;
  const make = (): Value => {
    ops.checkLiteral(name, dtype, number);
    // Arrays of 64-bit integers take numbers and bigints.
    const element = isLong(dtype) ? (number as number) : Number(number);
    return replicatedValue(runtime, { dtype, shape: [] }, dtypes[dtype].create([element]));
  };
  return scalars.of(runtime, kind, make, isPlain ? number : 0);
}

/** The cached work of a call: a program, or views of its results in the memory of its only operand. */
type Entry =
  | { readonly compiled: Compiled; readonly link: Link | undefined }
  | { readonly views: readonly MemoryView[] };

let entries = new Cache<Entry>(512);

/**
 * Runs a function over nodes on values. `name` and the static arguments identify the function in the cache.
 */
export function runEager(
  name: string,
  runtime: Runtime,
  operands: readonly Value[],
  statics: readonly unknown[],
  build: (nodes: readonly Node[]) => readonly Node[],
): readonly Value[] {
  // Numbers begin anew, so no entry may be left.
  if (textNumbers.size + operands.length > mostTypes)
    [typeNumbers, textNumbers, entries] = [new WeakMap(), new Map(), new Cache(512)];
  let called = keyOf(name, statics);
  let number = 1;
  let values = operands;
  // The order of dims of operands that are read by strides.
  const orders: (readonly number[] | undefined)[] = [];
  for (let index = 0; index < operands.length; index++) {
    const given = operands[index] as Value;
    const laid = given instanceof Permuted && given.runtime === runtime ? given.read() : undefined;
    if (laid !== undefined) {
      values = values.with(index, laid);
      orders[index] = (given as Permuted).order;
      called += `|${index}^${orders[index]}`;
    }
    const { type, layout } = laid ?? given;
    if (index < 2) number = number * mostTypes + typeNumber(type);
    else called += `|:${typeNumber(type)}`;
    if (layout.length > 0) called += `|${index}@${formatLayout(layout)}`;
  }
  const make = (): Entry => {
    const specs = values.map(({ type }, index) => ({ name: `x${index}`, type }));
    const ordered = (nodes: readonly Node[]): readonly Node[] =>
      nodes.map((node, index) => {
        const order = orders[index];
        return order === undefined ? node : ops.transpose(node, order);
      });
    // The program is kept for other calls, so its nodes record no source line.
    const { graph } = traceFunction(name, specs, (nodes) => build(ordered(nodes)), { placed: false });
    const [first] = values;
    const views = first !== undefined && hasParts(first) ? memoryViews(graph) : undefined;
    const inputs = values.map((value) => (value.runtime === runtime ? value.layout : undefined));
    if (views !== undefined) return { views };
    const compiled = compileGraph(graph, runtime, { inputs });
    return { compiled, link: Link.of(graph, compiled) };
  };
  const entry = entries.of(runtime, called, make, number);
  if ("views" in entry) return entry.views.map((view) => valueAt(values[0] as Value, view));
  const result = entry.link?.resultOf(values);
  return result === undefined ? runCompiled(entry.compiled, values) : [result];
}

/** The last arguments of functions, and their texts: to make and to find a new text takes as long as a small kernel. */
const lastKeys = new Map<string, { readonly shape: TreeShape; readonly text: string }>();
/** What may change behind its identity; most such arguments are mistakes, which the call reports. */
const isObject = (value: unknown): value is object =>
  typeof value === "object" && value !== null && !Array.isArray(value) && !isRecord(value);

/** A text of a name and its static arguments. */
function keyOf(name: string, statics: readonly unknown[]): string {
  const last = lastKeys.get(name);
  if (last !== undefined && isLike(last.shape, statics, isObject, [])) return last.text;
  const { shape, leaves } = flattenTree(statics, isObject);
  const text = [name, treeKey(shape), ...leaves].join("|");
  if (lastKeys.size > mostTypes) lastKeys.clear();
  if (leaves.length === 0) lastKeys.set(name, { shape, text });
  return text;
}

/** The arguments without trailing undefined ones, so that defaults apply. */
export function trimmed(statics: readonly unknown[]): readonly unknown[] {
  let length = statics.length;
  while (length > 0 && statics[length - 1] === undefined) length--;
  return statics.slice(0, length);
}

/** Two numbers below this one make one below 2 to the power of 31. */
const mostTypes = 2 ** 15;
let typeNumbers = new WeakMap<TensorType, number>();
let textNumbers = new Map<string, number>();

/** A number for a type, the same for all of equal text: types of results are the program's, so most are known. */
function typeNumber(type: TensorType): number {
  let number = typeNumbers.get(type);
  if (number !== undefined) return number;
  const text = formatType(type);
  number = textNumbers.get(text) ?? textNumbers.size;
  textNumbers.set(text, number);
  typeNumbers.set(type, number);
  return number;
}
