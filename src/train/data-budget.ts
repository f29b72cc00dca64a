/** @module Which columns a process keeps in memory: as many as fit a budget, in the order in which they are first read. */
import type { Column } from "../data/browser.ts";
import { bytesOf } from "../ir/shape.ts";
import { readEnvironment } from "../util/settings.ts";

/** Bytes of columns that a process keeps where neither an option nor the environment says how many. */
const defaultBudget = 2 ** 30;

/** What a column takes in memory. */
export interface KeptColumn {
  /** Whether its values are kept: read once, or there already. */
  readonly kept: boolean;
  /** Whether the executor has a copy, from which it gathers rows. */
  readonly copied: boolean;
}

/** The bytes that columns may take. */
export class DataBudget {
  private left: number;

  /** `option` is the option `dataMemory` of `train`. A quarter of what the process may use is for data: the rest is for the program. */
  constructor(option: number | undefined) {
    const { memory } = readEnvironment();
    this.left = option ?? (memory === undefined ? defaultBudget : memory / 4);
  }

  /** Takes the bytes of a column from the budget, if they fit. `gathers`: the executor gathers rows from a copy. */
  take(column: Column, gathers: boolean): KeptColumn {
    const taken = this.bytesOf(column, gathers);
    const isRead = column.read !== undefined;
    const fits = column.byEpoch !== true && taken <= this.left;
    if (fits) this.left -= taken;
    return { kept: fits || !isRead, copied: fits && this.copies(column, gathers) };
  }

  /** Gives the bytes of a column back that could not be read. */
  giveBack(column: Column, gathers: boolean): void {
    this.left += this.bytesOf(column, gathers);
  }

  // Values that are in memory as a whole take nothing but their copy.
  private bytesOf(column: Column, gathers: boolean): number {
    const bytes = bytesOf(column);
    return (column.read === undefined ? 0 : bytes) + (this.copies(column, gathers) ? bytes : 0);
  }

  // Native code counts rows in 32 bits.
  private copies({ shape }: Column, gathers: boolean): boolean {
    return gathers && (shape[0] as number) < 2 ** 31;
  }
}
