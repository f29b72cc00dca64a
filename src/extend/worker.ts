/** @module Which worker of a run this process is. */
import { readEnvironment } from "../util/settings.ts";

/** The rank of this process among the workers of its run; 0 for a single process. Rank 0 prints and writes files. */
export const workerRank = (): number => readEnvironment().rank ?? 0;
