/**
 * @module Heddle's records of a folder of files in batches of 128: answers `time FORMAT` with the number of records and the seconds of a pass, and
 * `sum FORMAT` with the number and the sum of all values.
 *
 *     data-records.ts <folder>
 */
import { join } from "node:path";
import { createInterface } from "node:readline";
import { data, type Tensor } from "heddle";

const folder = process.argv[2] as string;
const size = 128;
const numbers = ["a", "b", "c", "d", "e", "f"] as const;
const columns = {
  ...(Object.fromEntries(numbers.map((name) => [name, "f32"])) as Record<(typeof numbers)[number], "f32">),
  count: "i32",
  y: "i32",
} as const;

const batches: { readonly [format: string]: () => AsyncIterable<object> } = {
  csv: () => data.csv(join(folder, "rows.csv"), { columns }).batch(size),
  parquet: () => data.parquet(join(folder, "rows.parquet")).batch(size),
  images: () =>
    data
      .images(join(folder, "images"), { size: [128, 128] })
      .select("x", "y")
      .batch(size),
};

/** Goes over all batches; adds up all values if it is asked to. */
async function pass(format: string, adds: boolean): Promise<{ count: number; sum: number }> {
  let [count, sum] = [0, 0];
  for await (const batch of (batches[format] as () => AsyncIterable<object>)()) {
    const tensors = batch as { readonly [name: string]: Tensor };
    count += (tensors["y"] as Tensor).shape[0] as number;
    if (!adds) continue;
    for (const tensor of Object.values(tensors)) for (const value of await tensor.data()) sum += Number(value);
  }
  return { count, sum };
}

console.log("ready");
for await (const line of createInterface({ input: process.stdin })) {
  const [what, format = ""] = line.trim().split(" ");
  const before = performance.now();
  const { count, sum } = await pass(format, what === "sum");
  console.log(`${count} ${what === "sum" ? sum : (performance.now() - before) / 1000}`);
}
