/**
 * @module The order of the units of a region. A unit that frees at least as much memory as it takes runs at once;
 * otherwise the order in which results are demanded decides.
 */
import { invariant } from "../util/errors.ts";
import type { Storage } from "./storage.ts";
import type { Unit } from "./units.ts";

/** What a region's schedule depends on besides its units. */
export interface ScheduleRequest {
  readonly units: readonly Unit[];
  /** The storages of the results, in order of demand. */
  readonly demanded: readonly Storage[];
  /** Memory that is still needed after the region. */
  readonly keeps: (storage: Storage) => boolean;
  /** For a storage that takes over an input's buffer, the storage of that input. */
  readonly donor: (storage: Storage) => Storage | undefined;
}

class Item {
  readonly unit: Unit;
  readonly before = new Set<Item>();
  readonly after = new Set<Item>();
  /** Position in the order of demand. */
  demand = 0;
  waiting = 0;
  mark = 0;

  constructor(unit: Unit) {
    this.unit = unit;
  }
}

/** Orders units; inputs come before their users, and readers of a donated buffer before its writer where possible. */
export function scheduleUnits(request: ScheduleRequest): Unit[] {
  const items = request.units.map((unit) => new Item(unit));
  const writer = new Map<Storage, Item>();
  const readers = new Map<Storage, Item[]>();
  for (const item of items) for (const storage of item.unit.writes) writer.set(storage, item);
  for (const item of items) {
    for (const storage of item.unit.reads) {
      readers.set(storage, [...(readers.get(storage) ?? []), item]);
      const source = writer.get(storage);
      if (source !== undefined) link(source, item);
    }
  }
  for (const item of items) {
    for (const storage of item.unit.writes) {
      const donor = request.donor(storage);
      if (donor !== undefined) linkReaders(item, readers.get(donor) ?? []);
    }
  }
  demandOrder(items, writer, request.demanded);
  return listSchedule(items, readers, request);
}

function link(first: Item, second: Item): void {
  first.after.add(second);
  second.before.add(first);
}

let searches = 0;

/** Puts the readers of a buffer before its writer, unless one of them needs the writer. */
function linkReaders(item: Item, readers: readonly Item[]): void {
  searches++;
  const stack = [item];
  while (stack.length > 0) {
    const visited = stack.pop() as Item;
    if (visited.mark === searches) continue;
    visited.mark = searches;
    stack.push(...visited.after);
  }
  if (readers.some((reader) => reader !== item && reader.mark === searches)) return;
  for (const reader of readers) if (reader !== item) link(reader, item);
}

/** Numbers items by a depth-first walk from the demanded storages. */
function demandOrder(items: readonly Item[], writer: ReadonlyMap<Storage, Item>, demanded: readonly Storage[]): void {
  searches++;
  let count = 0;
  const roots = [...demanded.map((storage) => writer.get(storage)), ...items];
  for (const root of roots) {
    const stack: { item: Item; open: Item[] }[] = [];
    const enter = (item: Item | undefined): void => {
      if (item === undefined || item.mark === searches) return;
      item.mark = searches;
      stack.push({ item, open: [...item.before].reverse() });
    };
    enter(root);
    while (stack.length > 0) {
      const top = stack.at(-1) as { item: Item; open: Item[] };
      const next = top.open.pop();
      if (next !== undefined) enter(next);
      else {
        top.item.demand = count++;
        stack.pop();
      }
    }
  }
}

function listSchedule(
  items: readonly Item[],
  readers: ReadonlyMap<Storage, readonly Item[]>,
  request: ScheduleRequest,
): Unit[] {
  const remainingReads = new Map<Storage, number>([...readers].map(([storage, list]) => [storage, list.length]));
  const ready = new Set<Item>();
  for (const item of items) {
    item.waiting = item.before.size;
    if (item.waiting === 0) ready.add(item);
  }
  const frees = (storage: Storage, reads: number): boolean =>
    storage.inArena && !request.keeps(storage) && remainingReads.get(storage) === reads;
  /** Bytes that running the item allocates, less the bytes that it frees. */
  const change = (item: Item, before?: Item): number => {
    let bytes = 0;
    for (const storage of item.unit.writes) if (storage.inArena) bytes += storage.bytes;
    for (const storage of item.unit.reads)
      if (frees(storage, before?.unit.reads.has(storage) === true ? 2 : 1)) bytes -= storage.bytes;
    return bytes;
  };
  // The items that become ready count, too: a gradient is large, but its update frees it.
  const outlook = (item: Item): number => {
    let bytes = change(item);
    for (const next of item.after) if (next.waiting === 1) bytes += Math.min(0, change(next, item));
    return bytes;
  };
  const order: Unit[] = [];
  while (ready.size > 0) {
    let best: Item | undefined;
    let least = 0;
    for (const item of ready) {
      // Items that free nothing keep the order of demand.
      const bytes = Math.min(1, outlook(item));
      if (best === undefined || bytes < least || (bytes === least && item.demand < best.demand)) {
        best = item;
        least = bytes;
      }
    }
    const chosen = best as Item;
    ready.delete(chosen);
    order.push(chosen.unit);
    for (const storage of chosen.unit.reads) remainingReads.set(storage, (remainingReads.get(storage) as number) - 1);
    for (const next of chosen.after) if (--next.waiting === 0) ready.add(next);
  }
  invariant(order.length === items.length, "the units of a region wait for each other");
  return order;
}
