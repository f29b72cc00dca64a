/** @module The memory that each kernel call reads and writes, from the addresses in its fields. */
import type { KernelCall, Ref } from "../ir/kernel.ts";
import { sameShape } from "../ir/shape.ts";
import { type Access, accessesOf, coveredBytes, descriptionOf } from "../kernels/index.ts";
import { type Flat, nestedIn } from "./nest.ts";
import type { Storage } from "./storage.ts";

/** How a call uses a piece of memory. */
type Role = Access["role"];

/** What a call and its nested calls touch. */
export const allAccesses = (call: KernelCall, axes: readonly number[] = []): readonly Access[] => [
  ...accessesOf(call, axes),
  ...nestedIn(call).flatMap((list) => list.flatMap((inner) => allAccesses(inner, axes))),
];

/** Calls `visit` with each address in a call and its nested calls, and with the role of the access. */
export function eachRef(call: KernelCall, visit: (ref: Ref, role: Role) => void): void {
  // Before memory is assigned, calls hold references in place of addresses.
  for (const { at, role } of allAccesses(call)) visit(at as unknown as Ref, role);
}

/** Whether two accesses touch the same memory, and one of them writes there. */
export function collide(left: Access, right: Access): boolean {
  if (left.at[0] !== right.at[0] || (left.role === "read" && right.role === "read")) return false;
  const [leftBytes, rightBytes] = [coveredBytes(left), coveredBytes(right)];
  return leftBytes.low < rightBytes.high && rightBytes.low < leftBytes.high;
}

/** First and last use of a piece of memory, by index of call. */
export interface Life {
  readonly storage: Storage;
  first: number;
  /** Later than {@link Life.lastUse} while an async collective uses the memory. */
  last: number;
  /** For each async collective that uses the memory, the calls that start it and wait for it. */
  readonly asyncSpans: (readonly [start: number, end: number])[];
  lastUse: number;
  firstWrite: number;
  lastRead: number;
  /** Whether the first call that uses it reads it. */
  readFirst: boolean;
}

/** The life of each piece of memory, in numbers of the flattened calls. */
export function livesOf({ calls, loops }: Flat<KernelCall>): Map<Storage, Life> {
  const lives = new Map<Storage, Life>();
  calls.forEach((call, index) => {
    eachRef(call, (ref, role) => {
      const storage = ref.origin as Storage;
      const life = lives.get(storage) ?? {
        storage,
        first: index,
        last: index,
        asyncSpans: [],
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
  keepDuringAsync(calls, lives);
  for (const loop of loops) for (const life of lives.values()) keepDuringLoop(loop, life);
  return lives;
}

/** Memory that outlives an iteration keeps its content through the whole loop. */
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

/** Memory that an async collective uses lives until the program has waited for the collective. */
function keepDuringAsync(calls: readonly KernelCall[], lives: ReadonlyMap<Storage, Life>): void {
  calls.forEach((call, index) => {
    if (asyncRoleOf(call) !== "starts") return;
    const waitIndex = calls.findIndex(
      (later, laterIndex) => laterIndex > index && asyncRoleOf(later) === "ends" && later["handle"] === call["handle"],
    );
    eachRef(call, (ref) => {
      const life = lives.get(ref.origin as Storage) as Life;
      life.last = Math.max(life.last, waitIndex);
      life.asyncSpans.push([index, waitIndex]);
    });
  });
}

/** Whether a call starts an async collective, or waits for one; undefined for other calls. */
export const asyncRoleOf = (call: KernelCall): "starts" | "ends" | undefined =>
  call["handle"] === undefined ? undefined : descriptionOf(call).asyncRole;

/** The reference of an access, in a call without addresses. */
const refOf = ({ at }: Access): Ref => at as unknown as Ref;

/** Whether a call may run in place: it reads `from` only through a view equal to the one it writes to `to`. */
export function readsInPlace(call: KernelCall, from: Storage, to: Storage): boolean {
  const accesses = accessesOf(call);
  const [out, ...otherWrites] = accesses.filter((access) => access.role === "write" && refOf(access).origin === to);
  const reads = accesses.filter((access) => access.role === "read" && refOf(access).origin === from);
  return (
    out !== undefined &&
    otherWrites.length === 0 &&
    reads.length > 0 &&
    // Parts of a message are read one after another: only the part itself may be overwritten.
    (descriptionOf(call).communicates !== true || (reads.length === 1 && arePart(call, reads[0] as Access, out))) &&
    reads.every((access) => access.inPlace && sameView(access, out))
  );
}

/** Whether two accesses are what one part of a message reads and writes. */
const arePart = ({ parts }: KernelCall, read: Access, out: Access): boolean =>
  (parts as readonly { readonly in: unknown; readonly out: unknown }[]).some(
    (part) => part.in === read.at && part.out === out.at,
  );

const sameView = (left: Access, right: Access): boolean =>
  refOf(left).byteOffset === refOf(right).byteOffset &&
  left.dtype === right.dtype &&
  sameShape(left.shape, right.shape) &&
  left.strides.every((stride, dim) => stride === right.strides[dim] || left.shape[dim] === 1);

/** The storages of a call's inputs that an output may take over, and the storages of its outputs. */
export function takeovers(call: KernelCall): { readonly from: readonly Storage[]; readonly to: readonly Storage[] } {
  const accesses = accessesOf(call);
  const origins = (matches: (access: Access) => boolean): Storage[] => [
    ...new Set(accesses.filter(matches).map((access) => refOf(access).origin as Storage)),
  ];
  return { from: origins(({ inPlace }) => inPlace), to: origins(({ role }) => role === "write") };
}
