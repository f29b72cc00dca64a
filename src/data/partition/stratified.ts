/** @module Parts in which each class has the same share. */
import { HeddleError } from "../../util/errors.ts";
import { checkOptions } from "../../util/options.ts";
import { order } from "../order.ts";
import { checkPartition, type Partition, type RandomPartitionOptions } from "./partition.ts";

/** Options of {@link stratified}. */
export interface StratifiedOptions extends Omit<RandomPartitionOptions, "rows"> {
  /** The class of each row. */
  readonly labels: ArrayLike<number>;
}

/**
 * Each worker has random rows of each class, disjoint; the numbers of a class differ by at most one between workers, and so do the
 * numbers of all rows. @throws HeddleError `option`, `data`
 */
export function stratified(options: StratifiedOptions): Partition {
  checkOptions("stratified", options, ["labels", "workers", "seed"]);
  const { labels, workers, seed = 0 } = options;
  if (typeof labels?.length !== "number")
    throw new HeddleError("option", "stratified: labels must be the class of each row");
  checkPartition("stratified", { rows: labels.length, workers });
  const shuffled = order(seed, 0, labels.length);
  const byClass = new Map<number, number[]>();
  for (let index = 0; index < labels.length; index++) {
    const row = shuffled.at(index);
    const label = labels[row] as number;
    const own = byClass.get(label);
    if (own === undefined) byClass.set(label, [row]);
    else own.push(row);
  }
  // Dealt out class after class, without a break in the turns.
  const parts = Array.from({ length: workers }, (): number[] => []);
  let turn = 0;
  for (const label of [...byClass.keys()].sort((left, right) => left - right))
    for (const row of byClass.get(label) as number[]) (parts[turn++ % workers] as number[]).push(row);
  return parts.map((part) => Int32Array.from(part));
}
