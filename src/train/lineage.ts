/**
 * @module Programs of matrices that outlive their workers: those who are left run the program again, with what they had whole taken from
 * their memory, and what lay in blocks computed anew where it is needed.
 */
import { Lineage } from "../matrix/distributed/lineage.ts";
import { agreed, type ConnectOptions, computeWith } from "../matrix/distributed/workers.ts";
import { HeddleError } from "../util/errors.ts";
import { checkOptions } from "../util/options.ts";
import { shown } from "../util/show.ts";
import { iterate } from "./iterate.ts";

/** Where a program runs. */
export interface LineagePlace {
  readonly rank: number;
  /** Number of workers. */
  readonly size: number;
  /** How often the program has begun again; the same on all workers. */
  readonly recoveries: number;
  /** Results of programs that came from memory when the program began again. */
  readonly recalled: number;
}

/**
 * Runs a program on matrices of `heddle/matrix` with all workers of the run, as after `connect()` of that module. Under `heddle run --workers 2:4` it
 * survives lost workers: those who are left run the function again, in which results that were whole on each worker come from memory, and blocks
 * are recomputed from their lineage (ranges of files, seeds, programs). The function must be a function of its files and seeds: it may
 * read the clock only to print it. Each worker makes the call.
 *
 * @param program gets its place; matrices that it makes belong to one run of it
 * @returns what the function gives
 * @throws HeddleError `argument`; `option`; the error of the function
 */
export async function withLineage<Result>(
  program: (place: LineagePlace) => Result | Promise<Result>,
  options: ConnectOptions = {},
): Promise<Result> {
  if (typeof program !== "function")
    throw new HeddleError("argument", `withLineage: takes a function, got ${shown(program)}`);
  checkOptions("withLineage", options, ["wholeBytes"]);
  const lineage = new Lineage(true);
  let recoveries = -1;
  let ended: { readonly result: Result } | undefined;
  await iterate({
    iterations: 1,
    initial: () => ({}),
    compensate: () => ({}),
    step: async (part, { rank, size, runtime }) => {
      // A worker that comes later has not seen how often the others began.
      recoveries = agreed(runtime, recoveries + 1, "max");
      computeWith(runtime, options, lineage);
      const place: LineagePlace = {
        rank,
        size,
        recoveries,
        get recalled() {
          return lineage.fromMemory;
        },
      };
      ended = { result: await program(place) };
      return { part, done: true };
    },
  }).finally(() => lineage.end());
  return (ended as { readonly result: Result }).result;
}
