/** @module Nested calls of loops and branches, and the order in which all calls are numbered. */
import { type KernelCall, Ref } from "../ir/kernel.ts";
import { descriptionOf, end } from "../kernels/index.ts";
import type { Storage } from "./storage.ts";

/** The lists of nested calls of a loop or a branch, in the order of numbering. */
export const nestedIn = <Call extends KernelCall>(call: Call): (readonly Call[])[] =>
  descriptionOf(call).nested.flatMap((list) => (call[list] === undefined ? [] : [call[list] as readonly Call[]]));

/** Calls in a flat list: a loop or branch without its nested calls, then the nested calls, then an `end`. */
export interface Flat<Call extends KernelCall> {
  readonly calls: readonly Call[];
  /** Indices of the head and the end of each loop, inner ones first. */
  readonly loops: readonly { readonly first: number; readonly last: number }[];
}

/** Flattens nested calls. */
export function flatten<Call extends KernelCall>(nested: readonly Call[]): Flat<Call> {
  const calls: Call[] = [];
  const loops: { first: number; last: number }[] = [];
  const walk = (call: Call): void => {
    const inner = nestedIn(call);
    const first = calls.length;
    const { nested, control } = descriptionOf(call);
    const plainFields = Object.entries(call).filter(([key]) => !nested.includes(key));
    calls.push(inner.length === 0 ? call : (Object.fromEntries(plainFields) as Call));
    if (inner.length === 0) return;
    for (const list of inner) for (const innerCall of list) walk(innerCall);
    if (control === "loop") loops.push({ first, last: calls.length });
    calls.push(end.call({}) as Call);
  };
  for (const call of nested) walk(call);
  return { calls, loops };
}

/** A call, or a field of it, with something else in the place of each reference. */
export function mapRefs(value: unknown, to: (ref: Ref) => unknown): unknown {
  if (value instanceof Ref) return to(value);
  if (Array.isArray(value)) return value.map((item) => mapRefs(item, to));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, field]) => [key, mapRefs(field, to)]));
}

/** The calls with some storages replaced by others. */
export function replaceStorages(
  calls: readonly KernelCall[],
  replacements: ReadonlyMap<Storage, Storage>,
): KernelCall[] {
  const replace = (ref: Ref): Ref => {
    const storage = replacements.get(ref.origin as Storage);
    return storage === undefined ? ref : new Ref(storage, ref.byteOffset);
  };
  return replacements.size === 0 ? [...calls] : calls.map((call) => mapRefs(call, replace) as KernelCall);
}
