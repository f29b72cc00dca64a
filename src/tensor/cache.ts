/** @module A bounded cache of compiled functions per runtime. */

interface Kept<Entry> {
  readonly entry: Entry;
  readonly drop: () => void;
  used: boolean;
}

/** Entries by a name and a number, which cost less to find than by a long text. It drops one that was not used lately. */
export class Cache<Entry> {
  private readonly names = new WeakMap<object, Map<string, Map<number, Kept<Entry>>>>();
  /** The entries of each owner, from the place on of which the next one goes. */
  private readonly rings = new WeakMap<object, { readonly ring: Kept<Entry>[]; next: number }>();
  private readonly limit: number;

  constructor(limit: number) {
    this.limit = limit;
  }

  /** The entry, which `make` makes if there is none. */
  of(owner: object, name: string, make: () => Entry, number = 0): Entry {
    const known = this.names.get(owner)?.get(name)?.get(number);
    if (known !== undefined) {
      known.used = true;
      return known.entry;
    }
    const entry = make();
    const entries = this.rings.get(owner) ?? { ring: [], next: 0 };
    this.rings.set(owner, entries);
    const { ring } = entries;
    let old = ring[entries.next];
    for (; old?.used === true; old = ring[entries.next]) {
      old.used = false;
      entries.next = (entries.next + 1) % this.limit;
    }
    old?.drop();
    const names = this.names.get(owner) ?? new Map<string, Map<number, Kept<Entry>>>();
    const numbers = names.get(name) ?? new Map<number, Kept<Entry>>();
    const drop = (): unknown => numbers.delete(number) && numbers.size === 0 && names.delete(name);
    this.names.set(owner, names.set(name, numbers.set(number, { entry, drop, used: false })));
    ring[entries.next] = numbers.get(number) as Kept<Entry>;
    entries.next = (entries.next + 1) % this.limit;
    return entry;
  }
}
