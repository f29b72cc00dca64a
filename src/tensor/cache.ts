/** @module A bounded cache of compiled functions per runtime; it drops the least recently used entry. */

export class Cache<Entry> {
  private readonly byOwner = new WeakMap<object, Map<string, Entry>>();
  private readonly limit: number;

  constructor(limit: number) {
    this.limit = limit;
  }

  get(owner: object, key: string): Entry | undefined {
    const entries = this.byOwner.get(owner);
    const entry = entries?.get(key);
    if (entries === undefined || entry === undefined) return undefined;
    entries.delete(key);
    entries.set(key, entry);
    return entry;
  }

  set(owner: object, key: string, entry: Entry): void {
    const entries = this.byOwner.get(owner) ?? new Map<string, Entry>();
    this.byOwner.set(owner, entries);
    entries.set(key, entry);
    if (entries.size > this.limit) entries.delete(entries.keys().next().value as string);
  }

  keys(owner: object): string[] {
    return [...(this.byOwner.get(owner)?.keys() ?? [])];
  }
}
