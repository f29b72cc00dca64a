/** @module Which memory each kernel call reads and writes, found from the addresses in its fields. */
import type { KernelCall, Ref } from "../ir/kernel.ts";
import type { LoweredStep } from "./json.ts";
import { type Access, accessesOf } from "./kernels.ts";
import { type Flat, nestedIn } from "./nest.ts";
import type { Storage } from "./storage.ts";

/** How a call uses a piece of memory. */
type Role = Access["role"];

/** Calls `visit` for each address in a call, and in the calls that it holds, and says for what it is used. */
export function eachRef(call: KernelCall, visit: (ref: Ref, role: Role) => void): void {
  // Where memory is not assigned yet, calls hold references in the place of addresses.
  for (const { at, role } of accessesOf(call as LoweredStep)) visit(at as unknown as Ref, role);
  for (const list of nestedIn(call)) for (const one of list) eachRef(one, visit);
}

/** First and last use of a piece of memory, by index of call. */
export interface Life {
  readonly storage: Storage;
  first: number;
  /** Longer than {@link Life.lastUse} while a collective is under way. */
  last: number;
  /** Collectives under way that use it: from which call to which one. */
  readonly flights: (readonly [start: number, end: number])[];
  lastUse: number;
  firstWrite: number;
  lastRead: number;
  /** Whether the first call that uses it reads it. */
  readFirst: boolean;
}

/** When each piece of memory is used, by the numbers of the flattened calls. */
export function livesOf({ calls, loops }: Flat<KernelCall>): Map<Storage, Life> {
  const lives = new Map<Storage, Life>();
  calls.forEach((call, index) => {
    eachRef(call, (ref, role) => {
      const storage = ref.origin as Storage;
      const life = lives.get(storage) ?? {
        storage,
        first: index,
        last: index,
        flights: [],
        lastUse: index,
        firstWrite: Infinity,
        lastRead: -1,
        readFirst: false,
      };
      lives.set(storage, life);
      life.last = index;
      life.lastUse = index;
      if (role !== "read") life.firstWrite = Math.min(life.firstWrite, index);
      if (role !== "write") life.lastRead = index;
      if (role === "read" && life.first === index) life.readFirst = true;
    });
  });
  keepDuringFlights(calls, lives);
  for (const loop of loops) for (const life of lives.values()) keepDuringLoop(loop, life);
  return lives;
}

/** What an iteration does not make for itself must be there, or not be overwritten, in the next one. */
function keepDuringLoop({ first, last }: { first: number; last: number }, life: Life): void {
  if (life.last < first || life.first > last) return;
  const inside = life.first > first && life.last < last && !life.readFirst;
  if (inside && life.storage.inArena) return;
  if (life.firstWrite > first && life.firstWrite < last) life.firstWrite = first;
  if (life.lastRead > first && life.lastRead < last) life.lastRead = last;
  life.first = Math.min(life.first, first);
  life.last = Math.max(life.last, last);
  life.lastUse = Math.max(life.lastUse, last);
}

/** What a collective under way uses stays as it is until the program has waited for it. */
function keepDuringFlights(calls: readonly KernelCall[], lives: ReadonlyMap<Storage, Life>): void {
  calls.forEach((call, index) => {
    if (call["flight"] === undefined || call.k === "wait") return;
    const end = calls.findIndex((other, at) => at > index && other.k === "wait" && other["flight"] === call["flight"]);
    eachRef(call, (ref) => {
      const life = lives.get(ref.origin as Storage) as Life;
      life.last = Math.max(life.last, end);
      life.flights.push([index, end]);
    });
  });
}

interface StridedAt {
  readonly at: Ref;
  readonly dtype: string;
  readonly strides: readonly number[];
}

/** Kernels that compute element by element, so that an output may be exactly an input. */
export const fusedKernels: ReadonlySet<string> = new Set(["fused", "fusedRows", "fusedColumns"]);

/** Whether a fused call, or a gated scatter, reads `from` only as the very view that it writes to `to`. */
export function readsInPlace(call: KernelCall, from: Storage, to: Storage): boolean {
  if (call["gate"] === true) {
    const [input, source, out] = ["in", "source", "out"].map((field) => call[field] as Ref) as [Ref, Ref, Ref];
    return input.origin === from && out.origin === to && source.origin !== from && input.byteOffset === out.byteOffset;
  }
  if (!fusedKernels.has(call.k)) return false;
  const shape = call["shape"] as readonly number[];
  const outs = (call["out"] as readonly StridedAt[]).filter((out) => out.at.origin === to);
  const ins = (call["in"] as readonly StridedAt[]).filter((input) => input.at.origin === from);
  const same = (one: StridedAt, other: StridedAt): boolean =>
    one.at.byteOffset === other.at.byteOffset &&
    one.dtype === other.dtype &&
    one.strides.length === other.strides.length &&
    one.strides.every((stride, dim) => stride === other.strides[dim] || shape[dim] === 1);
  return ins.length > 0 && outs.length === 1 && ins.every((input) => same(input, outs[0] as StridedAt));
}
