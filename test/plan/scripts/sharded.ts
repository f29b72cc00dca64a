/** Runs the case that the first argument names on all workers; each prints its results, or its error, as a line of JSON. */
import { connect, distribute, jit, replicate, type Tensor } from "heddle";
import { parseLayout } from "heddle/plan";
import { cases, type ShardedCase } from "./sharded-cases.ts";

const { mesh, layouts, inputs, step } = cases[process.argv[2] ?? ""] as ShardedCase;
const runtime = await connect(mesh);
const given = inputs.map((input, index) =>
  distribute(runtime, input.data, input, parseLayout(layouts[index] as string)),
);
const run = jit((...args: Tensor[]) => step(...args), { name: "step", donate: [0] });
const say = (what: object): void => console.log(`RESULT ${JSON.stringify(what)}`);
try {
  const results = run(...given);
  // The loss is on every worker: with it the step has ended, well or not.
  await (results[0] as Tensor).data();
  const whole = results.map((result) => replicate(result));
  const numbers: number[][] = [];
  for (const result of whole) numbers.push([...(await result.data())]);
  say({ rank: runtime.rank, results: numbers });
} catch (error) {
  // What this worker still has of the donated table.
  const [shard] = (given[0] as Tensor).value.shards;
  const bytes = (await shard?.read()) as Uint8Array;
  say({
    rank: runtime.rank,
    error: String(error),
    table: [...new Float64Array(bytes.buffer, 0, bytes.byteLength / 8)],
  });
}
runtime.close();
