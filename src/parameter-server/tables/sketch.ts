/** @module How often a row was pushed: a count-min sketch (Cormode & Muthukrishnan, 2005), which may count too much, never too little. */
import { mixed } from "../../data/mix.ts";

const depth = 4;
const columns = 2 ** 18;
const most = 255;

/** Counts up to 255 in a mebibyte, whatever the number of rows. */
export class Sketch {
  /** The counters, one row of them after another. */
  readonly counts = new Uint8Array(depth * columns);

  /** Counts a row once more. The number of times that it was counted, at least; 255 may be more. */
  add(id: number): number {
    const [first, step] = [mixed(id), mixed(id ^ 0x9e3779b9) | 1];
    let least = most;
    // Two hashes make all (Kirsch & Mitzenmacher, 2006).
    const place = (row: number): number => row * columns + ((first + Math.imul(row, step)) >>> 14);
    for (let row = 0; row < depth; row++) least = Math.min(least, this.counts[place(row)] as number);
    const next = Math.min(most, least + 1);
    // Only the smallest counters grow (Estan & Varghese, 2002): the error is smaller, and still on one side.
    for (let row = 0; row < depth; row++)
      if ((this.counts[place(row)] as number) < next) this.counts[place(row)] = next;
    return next;
  }
}
