/** @module Which record has a row: a hash table with open addressing in typed arrays, since a table has up to 10^8 rows. */
import { mixed } from "../../data/mix.ts";

const free = -1;
/** Part of the places that may be taken. */
const load = 0.6;

/** Maps ids of rows, from 0 to 2^31 - 1, to numbers of records. */
export class RowIndex {
  /** Number of rows. */
  size = 0;
  private keys = new Int32Array(64).fill(free);
  private records = new Int32Array(64);

  /** The record of a row; -1 if there is none. */
  get(id: number): number {
    const place = this.place(id);
    return this.keys[place] === id ? (this.records[place] as number) : -1;
  }

  /** Adds a row that is not there. */
  set(id: number, record: number): void {
    if (this.size + 1 > load * this.keys.length) this.grow();
    const place = this.place(id);
    this.keys[place] = id;
    this.records[place] = record;
    this.size++;
  }

  /** Removes a row that is there. */
  delete(id: number): void {
    const mask = this.keys.length - 1;
    let hole = this.place(id);
    // Later rows of the same run move back, so that no place needs a mark (Knuth, volume 3, 6.4, algorithm R).
    for (let at = (hole + 1) & mask; this.keys[at] !== free; at = (at + 1) & mask) {
      const home = mixed(this.keys[at] as number) & mask;
      if (((at - home) & mask) < ((at - hole) & mask)) continue;
      this.keys[hole] = this.keys[at] as number;
      this.records[hole] = this.records[at] as number;
      hole = at;
    }
    this.keys[hole] = free;
    this.size--;
  }

  /** All rows in ascending order. */
  sorted(): Int32Array<ArrayBuffer> {
    return this.keys.filter((key) => key !== free).sort();
  }

  private place(id: number): number {
    const { keys } = this;
    const mask = keys.length - 1;
    let at = mixed(id) & mask;
    while (keys[at] !== free && keys[at] !== id) at = (at + 1) & mask;
    return at;
  }

  private grow(): void {
    const { keys, records } = this;
    this.keys = new Int32Array(2 * keys.length).fill(free);
    this.records = new Int32Array(2 * keys.length);
    for (const [old, id] of keys.entries()) {
      if (id === free) continue;
      const place = this.place(id);
      this.keys[place] = id;
      this.records[place] = records[old] as number;
    }
  }
}
