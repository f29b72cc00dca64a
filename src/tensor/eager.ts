/** @module Eager calls: each runs a cached program, found by types, layouts and other arguments, or gives a view of its operand. */

import { type Compiled, compileGraph, runCompiled } from "../compile/compile.ts";
import { replicatedValue, type Value } from "../compile/value.ts";
import { type DType, dtypes, isLong } from "../ir/dtype.ts";
import type { Node } from "../ir/node.ts";
import { formatType } from "../ir/shape.ts";
import * as ops from "../ops/index.ts";
import { formatLayout } from "../plan/layout.ts";
import type { Runtime } from "../runtime/devices.ts";
import { canonicalJson, type Plain } from "../util/text.ts";
import { Cache } from "./cache.ts";
import { traceFunction } from "./tracing.ts";
import { hasParts, type MemoryView, memoryViews, Permuted, valueAt } from "./views.ts";

const scalars = new Cache<Value>(256);

/** A number as a scalar of the other operand's dtype. */
export function scalarValue(name: string, runtime: Runtime, dtype: DType, number: number | bigint): Value {
  ops.checkLiteral(name, dtype, number);
  const key = `${dtype} ${Object.is(number, -0) ? "-0" : number}`;
  const known = scalars.get(runtime, key);
  if (known !== undefined) return known;
  // Arrays of 64-bit integers take numbers and bigints.
  const element = isLong(dtype) ? (number as number) : Number(number);
  const value = replicatedValue(runtime, { dtype, shape: [] }, dtypes[dtype].create([element]));
  scalars.set(runtime, key, value);
  return value;
}

/** The cached work of a call: a program, or views of its results in the memory of its only operand. */
type Entry = { readonly compiled: Compiled } | { readonly views: readonly MemoryView[] };

const entries = new Cache<Entry>(512);

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
  // The order of dims of operands that are read by strides; undefined for row-major operands.
  const orders: (readonly number[] | undefined)[] = [];
  const values: Value[] = [];
  let key = `${name}(`;
  for (const operand of operands) {
    const laid = operand instanceof Permuted && operand.runtime === runtime ? operand.read() : undefined;
    const order = laid === undefined ? undefined : (operand as Permuted).order;
    const value = laid ?? operand;
    orders.push(order);
    values.push(value);
    key += order === undefined ? keyOf(value) : `${keyOf(value)}^${order}`;
    key += ";";
  }
  key += `)${staticsKey(statics)}`;
  let entry = entries.get(runtime, key);
  if (entry === undefined) {
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
    entry = views !== undefined ? { views } : { compiled: compileGraph(graph, runtime, { inputs }) };
    entries.set(runtime, key, entry);
  }
  if ("views" in entry) return entry.views.map((view) => valueAt(values[0] as Value, view));
  return runCompiled(entry.compiled, values);
}

/** The arguments without trailing undefined ones, so that defaults apply. */
export function trimmed(statics: readonly unknown[]): readonly unknown[] {
  let length = statics.length;
  while (length > 0 && statics[length - 1] === undefined) length--;
  return statics.slice(0, length);
}

/** Caches the text of objects: types and layouts of results are the program's, so most texts are known. */
function textOnce<Named extends object>(text: (named: Named) => string): (named: Named) => string {
  const texts = new WeakMap<Named, string>();
  return (named) => {
    let known = texts.get(named);
    if (known === undefined) {
      known = text(named);
      texts.set(named, known);
    }
    return known;
  };
}

const typeText = textOnce(formatType);
const layoutText = textOnce(formatLayout);

const keyOf = ({ type, layout }: Value): string =>
  layout.length === 0 ? typeText(type) : `${typeText(type)} ${layoutText(layout)}`;

function staticsKey(statics: readonly unknown[]): string {
  if (statics.length === 0) return "";
  return trimmed(statics)
    .map((value) => canonicalJson(plainOf(value)))
    .join(";");
}

/** Static arguments as plain data that keeps all numbers distinct. */
function plainOf(value: unknown): Plain {
  if (value === undefined) return "@undefined";
  if (Array.isArray(value)) return value.map(plainOf);
  if (typeof value !== "object" || value === null) return value as Plain;
  const fields = Object.entries(value).filter(([, field]) => field !== undefined);
  return Object.fromEntries(fields.map(([name, field]) => [name, plainOf(field)]));
}
