/** Runs every collective in every dtype on all workers, or each so many-th as the argument says; each prints what is not as it should be. */
import { comm } from "heddle";
import { difference, heldBy, tensorOf, triedCases } from "./cases.ts";

const runtime = await comm.connect();
const [rank, size] = [comm.rank(), comm.size()];
const wrong: string[] = [];
const calls = triedCases(size, Number(process.argv[2] ?? 1));
for (const [one, dtype] of calls) {
  const all = Array.from({ length: size }, (_unused, other) => heldBy(other, one.shape(size, other), dtype));
  const result = one.call(tensorOf(all[rank] as (typeof all)[number], dtype), size, rank);
  const found = difference(result, await result.data(), one.expect(all, rank));
  if (result.dtype !== dtype) wrong.push(`${one.name} ${dtype}: gives ${result.dtype}`);
  if (found !== undefined) wrong.push(`${one.name} ${dtype}: ${found}`);
}
await comm.barrier();
console.log(`RESULT ${JSON.stringify({ rank, size, tried: calls.length, wrong })}`);
runtime.close();
