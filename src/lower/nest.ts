/** @module Calls within calls: what loops and branches hold, and the one order in which all of it is numbered. */
import { type KernelCall, Ref } from "../ir/kernel.ts";
import { descriptionOf, end } from "../kernels/index.ts";
import type { Storage } from "./storage.ts";

/** The lists of calls that a loop or a branch holds, in the order in which they are numbered. */
export const nestedIn = <Call extends KernelCall>(call: Call): (readonly Call[])[] =>
  descriptionOf(call).nested.flatMap((list) => (call[list] === undefined ? [] : [call[list] as readonly Call[]]));

/** Calls in one row: a loop or branch without what it holds, then that, then an `end`. */
export interface Flat<Call extends KernelCall> {
  readonly calls: readonly Call[];
  /** Indices of the head and the end of each loop, inner ones first. */
  readonly loops: readonly { readonly first: number; readonly last: number }[];
}

/** Numbers calls and the calls in them. */
export function flatten<Call extends KernelCall>(nested: readonly Call[]): Flat<Call> {
  const calls: Call[] = [];
  const loops: { first: number; last: number }[] = [];
  const walk = (call: Call): void => {
    const inner = nestedIn(call);
    const first = calls.length;
    const { nested, control } = descriptionOf(call);
    const own = Object.entries(call).filter(([key]) => !nested.includes(key));
    calls.push(inner.length === 0 ? call : (Object.fromEntries(own) as Call));
    if (inner.length === 0) return;
    for (const list of inner) for (const one of list) walk(one);
    if (control === "loop") loops.push({ first, last: calls.length });
    calls.push(end.call({}) as Call);
  };
  for (const call of nested) walk(call);
  return { calls, loops };
}

/** The calls with other pieces of memory in the places of some. */
export function replaceStorages(calls: readonly KernelCall[], by: ReadonlyMap<Storage, Storage>): KernelCall[] {
  const replace = (value: unknown): unknown => {
    if (value instanceof Ref) {
      const storage = by.get(value.origin as Storage);
      return storage === undefined ? value : new Ref(storage, value.byteOffset);
    }
    if (Array.isArray(value)) return value.map(replace);
    if (typeof value === "object" && value !== null)
      return Object.fromEntries(Object.entries(value).map(([key, field]) => [key, replace(field)]));
    return value;
  };
  return by.size === 0 ? [...calls] : (calls.map(replace) as KernelCall[]);
}
