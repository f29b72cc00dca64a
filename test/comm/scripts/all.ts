/** Runs every collective in every dtype on all workers; each prints what is not as it should be. */
import { comm } from "heddle";
import { cases, difference, dtypes, heldBy, isTried, scheduledCases, tensorOf } from "./cases.ts";

const runtime = await comm.connect();
const [rank, size] = [comm.rank(), comm.size()];
const wrong: string[] = [];
let tried = 0;
for (const dtype of dtypes) {
  for (const one of [...cases, ...scheduledCases(size)]) {
    if (!isTried(one, dtype)) continue;
    const all = Array.from({ length: size }, (_unused, other) => heldBy(other, one.shape(size, other), dtype));
    const result = one.call(tensorOf(all[rank] as (typeof all)[number], dtype), size, rank);
    const found = difference(result, await result.data(), one.expect(all, rank));
    tried++;
    if (result.dtype !== dtype) wrong.push(`${one.name} ${dtype}: gives ${result.dtype}`);
    if (found !== undefined) wrong.push(`${one.name} ${dtype}: ${found}`);
  }
}
await comm.barrier();
console.log(`RESULT ${JSON.stringify({ rank, size, tried, wrong })}`);
runtime.close();
