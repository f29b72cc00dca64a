/** @module Which record has a row: a hash table with open addressing in typed arrays, since a table has up to 10^8 rows. */
import { mixed } from "../../data/mix.ts";

const free = -1;
/** Part of the places that may be taken. */
const load = 0.6;

/** Maps ids of rows, from 0 to 2^31 - 1, to numbers of records. */
export class RowIndex {
  /** Number of rows. */
  size = 0;
  /** In each place a row and its record, side by side, so that both are in one line of the cache. */
  private places = new Int32Array(2 * 64).fill(free);

  /** The record of a row; -1 if there is none. */
  get(id: number): number {
    const at = 2 * this.place(id);
    return this.places[at] === id ? (this.places[at + 1] as number) : -1;
  }

  /** Adds a row that is not there. */
  set(id: number, record: number): void {
    if (this.size + 1 > load * this.count) this.grow();
    this.put(id, record);
    this.size++;
  }

  /** Removes a row that is there. */
  delete(id: number): void {
    const { places } = this;
    const mask = this.count - 1;
    let hole = this.place(id);
    // Later rows of the same run move back, so that no place needs a mark (Knuth, volume 3, 6.4, algorithm R).
    for (let at = (hole + 1) & mask; places[2 * at] !== free; at = (at + 1) & mask) {
      const home = mixed(places[2 * at] as number) & mask;
      if (((at - home) & mask) < ((at - hole) & mask)) continue;
      places.copyWithin(2 * hole, 2 * at, 2 * at + 2);
      hole = at;
    }
    places[2 * hole] = free;
    this.size--;
  }

  /** All rows in ascending order. */
  sorted(): Int32Array<ArrayBuffer> {
    return this.places.filter((id, at) => at % 2 === 0 && id !== free).sort();
  }

  private get count(): number {
    return this.places.length / 2;
  }

  private put(id: number, record: number): void {
    const at = 2 * this.place(id);
    this.places[at] = id;
    this.places[at + 1] = record;
  }

  private place(id: number): number {
    const { places } = this;
    const mask = this.count - 1;
    let at = mixed(id) & mask;
    while (places[2 * at] !== free && places[2 * at] !== id) at = (at + 1) & mask;
    return at;
  }

  private grow(): void {
    const { places } = this;
    this.places = new Int32Array(2 * places.length).fill(free);
    for (let at = 0; at < places.length; at += 2)
      if (places[at] !== free) this.put(places[at] as number, places[at + 1] as number);
  }
}
