/**
 * @module How values came to be, so that a run goes on when workers are lost. A program of matrices is a function of files, seeds and
 * the values that it has read, so its lineage is the program itself: those who are left run it again from the beginning. What all of them had
 * whole is taken from their memory instead of being computed; what lay in blocks is computed anew, from ranges of files, seeds and the
 * programs over them, and only where something that was not computed before needs it (as in LIMA, Phani, Rath and Boehm, SIGMOD 2021).
 */

import type { HostTensor } from "../../ir/shape.ts";
import { HeddleError } from "../../util/errors.ts";
import { type Apart, hostOf, type Stored } from "../expression.ts";

/** Bytes of values that are kept; values after them are computed again. */
const mostBytes = 2 ** 28;
/** About what the objects of a program's run, and those of each of its results, take beside the elements. */
const bytesOfRun = 512;
const bytesOfResult = 256;

/** A value in blocks that were lost, with what it is computed from. */
class Lost implements Apart {
  private readonly stored: Stored;
  private readonly run: Run;

  constructor(stored: Stored, run: Run) {
    this.stored = stored;
    this.run = run;
  }

  /** The program that gives it. */
  get origin(): Run {
    return this.run;
  }

  whole(): HostTensor {
    recover([this.stored]);
    return hostOf(this.stored);
  }
}

/** A run of a program whose results are not all there. */
interface Run {
  readonly inputs: readonly Stored[];
  readonly results: readonly Stored[];
  readonly compute: () => readonly Stored[];
}

/** Computes what is lost of these values, after what each is computed from. A chain may be longer than the stack is deep. */
function recover(wanted: readonly Stored[]): void {
  const open: Run[] = [];
  const want = ({ apart }: Stored): void => {
    if (apart instanceof Lost) open.push(apart.origin);
  };
  wanted.forEach(want);
  for (let run = open.at(-1); run !== undefined; run = open.at(-1)) {
    const before = open.length;
    if (run.results.some(({ apart }) => apart instanceof Lost)) run.inputs.forEach(want);
    if (open.length > before) continue;
    open.pop();
    if (!run.results.some(({ apart }) => apart instanceof Lost)) continue;
    const computed = run.compute();
    run.results.forEach((result, index) => {
      const { host, apart } = computed[index] as Stored;
      // What lay in blocks counts as such, so that the workers take the same way through the rest of the program.
      if (result.apart instanceof Lost) result.apart = apart ?? { whole: () => host as HostTensor };
      result.host ??= host;
    });
  }
}

/** The least rows of a matrix in blocks, with fewer workers than that. */
const smallest = 64;

/** What a run of a program gave: of each result the elements if it was whole. */
interface Remembered {
  /** The program's operators. */
  readonly text: string;
  readonly results: readonly (HostTensor | undefined)[];
}

/** The values of a run so far, in the order in which programs were run together. */
export class Lineage {
  private keeps: boolean;
  private readonly remembered: Remembered[] = [];
  private bytes = 0;
  private position = 0;
  /** Runs whose values come from memory. */
  private known = 0;
  private recalled = 0;
  private rows: number | undefined;

  /** @param keeps whether values are kept, so that the run can begin again */
  constructor(keeps: boolean) {
    this.keeps = keeps;
  }

  /** Matrices of fewer rows are not cut: the same number for all beginnings, whatever the number of workers. */
  get leastRows(): number {
    return this.rows ?? smallest;
  }

  /** How many results came from memory, over all beginnings. */
  get fromMemory(): number {
    return this.recalled;
  }

  /** The program begins, for the first time or again. `least` gives the least number of all workers, since one may have come further than others. */
  begin(workers: number, least: (own: number) => number): void {
    this.rows ??= Math.max(smallest, workers);
    this.position = 0;
    this.known = this.keeps ? least(this.remembered.length) : 0;
    this.remembered.length = this.known;
    this.bytes = this.remembered.reduce((sum, results) => sum + bytesOf(results), 0);
  }

  /** The run is over: what is computed from now on is not kept, and what was is forgotten. */
  end(): void {
    this.keeps = false;
    this.remembered.length = 0;
    this.known = 0;
    this.bytes = 0;
  }

  /**
   * The results of a program's run: those of memory, else those that `compute` gives.
   *
   * @throws HeddleError `mismatch` where the run has become another one when it began again
   */
  through(text: string, inputs: readonly Stored[], compute: () => readonly Stored[]): readonly Stored[] {
    const before = this.position < this.known ? (this.remembered[this.position] as Remembered) : undefined;
    this.position++;
    if (before !== undefined) {
      if (before.text !== text)
        throw new HeddleError("mismatch", "withLineage: the function did something else when it began again", {
          hint: "what it computes must follow from its files and seeds, not from the clock or from what it did before",
        });
      this.recalled += before.results.filter((host) => host !== undefined).length;
      return recalled(before, inputs, () => {
        recover(inputs);
        return compute();
      });
    }
    recover(inputs);
    const computed = compute();
    const remembered = { text, results: computed.map(({ host }) => host) };
    if (this.keeps && this.remembered.length === this.position - 1 && this.bytes + bytesOf(remembered) <= mostBytes) {
      this.remembered.push(remembered);
      this.bytes += bytesOf(remembered);
    }
    return computed;
  }
}

const bytesOf = ({ results }: Remembered): number =>
  results.reduce((sum, result) => sum + bytesOfResult + (result?.data.byteLength ?? 0), bytesOfRun);

function recalled(before: Remembered, inputs: readonly Stored[], compute: () => readonly Stored[]): readonly Stored[] {
  const results = before.results.map((host): Stored => (host === undefined ? {} : { host }));
  const run: Run = { inputs, results, compute };
  for (const result of results) if (result.host === undefined) result.apart = new Lost(result, run);
  return results;
}
