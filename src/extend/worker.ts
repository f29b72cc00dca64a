/** @module Which worker of a run this process is. */
import { readEnvironment } from "../util/settings.ts";

/** The number of this process among the workers of its run; 0 of one alone, as of the one that prints and writes files. */
export const workerRank = (): number => readEnvironment().rank ?? 0;
