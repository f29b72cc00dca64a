/** @module Which memory each kernel call reads and writes, found from the addresses in its fields. */
import type { KernelCall, Ref } from "../ir/kernel.ts";
import { sameShape } from "../ir/shape.ts";
import { type Access, accessesOf, descriptionOf } from "../kernels/index.ts";
import { type Flat, nestedIn } from "./nest.ts";
import type { Storage } from "./storage.ts";

/** How a call uses a piece of memory. */
type Role = Access["role"];

/** Calls `visit` for each address in a call, and in the calls that it holds, and says for what it is used. */
export function eachRef(call: KernelCall, visit: (ref: Ref, role: Role) => void): void {
  // Where memory is not assigned yet, calls hold references in the place of addresses.
  for (const { at, role } of accessesOf(call)) visit(at as unknown as Ref, role);
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
    if (flightOf(call) !== "starts") return;
    const end = calls.findIndex(
      (other, at) => at > index && flightOf(other) === "ends" && other["flight"] === call["flight"],
    );
    eachRef(call, (ref) => {
      const life = lives.get(ref.origin as Storage) as Life;
      life.last = Math.max(life.last, end);
      life.flights.push([index, end]);
    });
  });
}

/** Whether a call starts what is then under way, or ends it. */
export const flightOf = (call: KernelCall): "starts" | "ends" | undefined =>
  call["flight"] === undefined ? undefined : descriptionOf(call).flight;

/** The memory that an access of a call without addresses names. */
const refOf = ({ at }: Access): Ref => at as unknown as Ref;

/** Whether a call reads `from` only as the very view that it writes to `to`, and may be done in place. */
export function readsInPlace(call: KernelCall, from: Storage, to: Storage): boolean {
  const accesses = accessesOf(call);
  const [out, ...more] = accesses.filter((access) => access.role === "write" && refOf(access).origin === to);
  const ins = accesses.filter((access) => access.role === "read" && refOf(access).origin === from);
  return (
    out !== undefined &&
    more.length === 0 &&
    ins.length > 0 &&
    ins.every((access) => access.inPlace && sameView(access, out))
  );
}

const sameView = (one: Access, other: Access): boolean =>
  refOf(one).byteOffset === refOf(other).byteOffset &&
  one.dtype === other.dtype &&
  sameShape(one.shape, other.shape) &&
  one.strides.every((stride, dim) => stride === other.strides[dim] || one.shape[dim] === 1);

/** The memory of a call's reads that an output may take over, and of its outputs. */
export function takenOver(call: KernelCall): { readonly from: readonly Storage[]; readonly to: readonly Storage[] } {
  const accesses = accessesOf(call);
  const origins = (wanted: (access: Access) => boolean): Storage[] => [
    ...new Set(accesses.filter(wanted).map((access) => refOf(access).origin as Storage)),
  ];
  return { from: origins(({ inPlace }) => inPlace), to: origins(({ role }) => role === "write") };
}
