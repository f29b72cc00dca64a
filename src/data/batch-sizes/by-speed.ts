/** @module A step's samples divided by the speed of workers, so that all end at one time. */
import { HeddleError } from "../../util/errors.ts";
import { checkInteger } from "../../util/options.ts";

/**
 * The samples of each worker, together `size`: by the inverse of their seconds per sample, and one at least. @throws HeddleError `option`
 */
export function bySpeed(size: number, seconds: readonly number[]): number[] {
  if (!Array.isArray(seconds) || seconds.length === 0 || !seconds.every((time) => time > 0 && time < Infinity))
    throw new HeddleError("option", "bySpeed: the seconds per sample of each worker must be above 0");
  checkInteger("bySpeed", "size", size, seconds.length);
  const speeds = seconds.map((time) => 1 / time);
  const total = speeds.reduce((sum, speed) => sum + speed, 0);
  const sizes = speeds.map((speed) => Math.max(1, Math.floor((size * speed) / total)));
  let rest = size - sizes.reduce((sum, one) => sum + one, 0);
  // What is left goes to whoever would end first with one more; what is too much comes from whoever ends last.
  for (; rest > 0; rest--)
    (sizes[leastOf(sizes.map((one, worker) => (one + 1) * (seconds[worker] as number)))] as number)++;
  for (; rest < 0; rest++)
    (sizes[leastOf(sizes.map((one, worker) => (one > 1 ? -one * (seconds[worker] as number) : Infinity)))] as number)--;
  return sizes;
}

const leastOf = (values: readonly number[]): number => values.indexOf(Math.min(...values));
