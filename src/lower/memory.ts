/** @module The layout of the arena: values whose lives do not overlap share memory. */
import type { KernelCall } from "../ir/kernel.ts";
import { aligned } from "../kernels/index.ts";
import { type Life, readsInPlace, takeovers } from "./access.ts";
import type { Storage } from "./storage.ts";

/** The peak of live memory, and the largest values at that call. */
export interface PeakReport {
  /** Index of the call. */
  readonly step: number;
  /** Bytes live at that call; the arena may be a little larger, because blocks are not split. */
  readonly bytes: number;
  readonly largest: readonly { readonly label: string; readonly bytes: number }[];
}

export interface Arena {
  readonly bytes: number;
  readonly offsets: ReadonlyMap<Storage, number>;
  readonly peak: PeakReport;
}

/** One address range over a span of calls: a value, or a chain of values that take over each other's memory. */
interface Block {
  readonly members: Storage[];
  bytes: number;
  first: number;
  last: number;
  offset: number;
}

/** Lays out the arena. `inPlace` has pairs of an input and an output of a kernel that may share memory. */
export function layOutArena(
  calls: readonly KernelCall[],
  lives: ReadonlyMap<Storage, Life>,
  inPlace: readonly (readonly [Storage, Storage])[],
): Arena {
  const blocks = blocksOf(calls, lives, inPlace);
  const orders: readonly ((left: Block, right: Block) => number)[] = [
    (left, right) => right.bytes - left.bytes || left.first - right.first,
    (left, right) =>
      right.bytes * (right.last - right.first + 1) - left.bytes * (left.last - left.first + 1) ||
      left.first - right.first,
    (left, right) => left.first - right.first || right.bytes - left.bytes,
  ];
  let best = Infinity;
  const offsets = new Map<Storage, number>();
  // No single order is best for all programs; all three are cheap.
  for (const order of orders) {
    const bytes = placeBlocks([...blocks].sort(order));
    if (bytes >= best) continue;
    best = bytes;
    for (const block of blocks) for (const storage of block.members) offsets.set(storage, block.offset);
  }
  return { bytes: best === Infinity ? 0 : best, offsets, peak: peakOf(blocks, calls.length) };
}

function blocksOf(
  calls: readonly KernelCall[],
  lives: ReadonlyMap<Storage, Life>,
  inPlace: readonly (readonly [Storage, Storage])[],
): Block[] {
  const blocks = new Map<Storage, Block>();
  for (const life of lives.values()) {
    if (!life.storage.inArena) continue;
    blocks.set(life.storage, {
      members: [life.storage],
      bytes: aligned(life.storage.bytes),
      first: life.first,
      last: life.last,
      offset: 0,
    });
  }
  const takeOver = (from: Storage, to: Storage): void => {
    const [source, target] = [blocks.get(from), blocks.get(to)];
    const [fromLife, toLife] = [lives.get(from) as Life, lives.get(to) as Life];
    if (source === undefined || target === undefined || source === target || from.bytes !== to.bytes) return;
    // Memory that an async collective uses can be taken over only by the collective's result.
    if (fromLife.asyncSpans.some(([start, end]) => start !== toLife.first && end > toLife.first)) return;
    // One value must end at the call where the other begins.
    if (fromLife.lastUse !== toLife.first || source.last !== fromLife.last || target.first !== toLife.first) return;
    source.members.push(...target.members);
    source.last = Math.max(source.last, target.last);
    source.bytes = Math.max(source.bytes, target.bytes);
    for (const member of target.members) blocks.set(member, source);
  };
  for (const [from, to] of inPlace)
    if (from.inArena && to.inArena && lives.has(from) && lives.has(to)) takeOver(from, to);
  calls.forEach((call, index) => {
    const memory = takeovers(call);
    const endingHere = memory.from.filter((storage) => storage.inArena && lives.get(storage)?.last === index);
    for (const to of memory.to) {
      const from = endingHere.find(
        (storage) =>
          storage.bytes === to.bytes && blocks.get(storage) !== blocks.get(to) && readsInPlace(call, storage, to),
      );
      if (from === undefined || !to.inArena || lives.get(to)?.first !== index) continue;
      takeOver(from, to);
      endingHere.splice(endingHere.indexOf(from), 1);
    }
  });
  return [...new Set(blocks.values())];
}

/** Puts each block, in the given order, into the smallest gap that is free during its life; returns the bytes of the arena. */
function placeBlocks(blocks: readonly Block[]): number {
  const placed: Block[] = [];
  let end = 0;
  for (const block of blocks) {
    const overlapping = placed
      .filter((other) => other.first <= block.last && block.first <= other.last)
      .sort((left, right) => left.offset - right.offset);
    let offset = 0;
    let best = -1;
    let smallest = Infinity;
    for (const other of overlapping) {
      const gap = other.offset - offset;
      if (gap >= block.bytes && gap < smallest) {
        best = offset;
        smallest = gap;
      }
      offset = Math.max(offset, other.offset + other.bytes);
    }
    block.offset = best < 0 ? offset : best;
    placed.push(block);
    end = Math.max(end, block.offset + block.bytes);
  }
  return end;
}

function peakOf(blocks: readonly Block[], calls: number): PeakReport {
  const change = new Float64Array(calls + 1);
  for (const block of blocks) {
    (change[block.first] as number) += block.bytes;
    (change[block.last + 1] as number) -= block.bytes;
  }
  let [step, bytes, live] = [0, 0, 0];
  for (let index = 0; index < calls; index++) {
    live += change[index] as number;
    if (live > bytes) [step, bytes] = [index, live];
  }
  const largest = blocks
    .filter((block) => block.first <= step && step <= block.last)
    .sort((left, right) => right.bytes - left.bytes)
    .slice(0, 10)
    .map((block) => ({ label: (block.members[0] as Storage).label, bytes: block.bytes }));
  return { step, bytes, largest };
}
