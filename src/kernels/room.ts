/** @module Memory of a call's workers, after the arena (native/core/src/kernels/room.rs). */

/** Offsets of areas are multiples of this. */
export const alignment = 64;

/** The next multiple of {@link alignment}. */
export const aligned = (bytes: number): number => Math.ceil(bytes / alignment) * alignment;

/** The product of sizes. */
export const product = (sizes: readonly number[]): number => sizes.reduce((total, size) => total * size, 1);

/** The most workers that get scratch. */
const workers = 16;

/** Bytes of all workers, for a call with this many tasks. */
export const room = (tasks: number, bytes: number): number => aligned(bytes) * Math.min(Math.max(tasks, 1), workers);

/** The number of elements of one task. */
const task = 4096;

/** The number of tasks for rows of this length. */
export const tasksOf = (rows: number, length: number): number =>
  Math.ceil(rows / Math.max(Math.floor(task / Math.max(length, 1)), 1));
