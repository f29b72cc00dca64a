/** @module What `heddle machine` times: programs of known work, by one worker for rates, by two for the link between them. */

import { connect, distribute, jit, meshOf, type Tensor, zeros } from "../functions/index.ts";
import { shardedOn } from "../plan/index.ts";
import { links, rates, steps } from "./machine.ts";

const repeat = (count: number, x: Tensor, step: (x: Tensor) => Tensor): Tensor => {
  let y = x;
  for (let index = 0; index < count; index++) y = step(y);
  return y;
};

const runtime = await connect();
/** Each sum waits for the one before, so that they are not sent together. */
const sums = (x: Tensor): Tensor =>
  repeat(links.rounds, x, (y) => y.add(y.sum([0], { keepDims: true })).mul(0.25)).sum();
const { side, elements, calls, middling } = rates;
const programs =
  runtime.world === 1
    ? [
        { name: "product", x: zeros([side, side]), fn: (x: Tensor) => x.matmul(x) },
        {
          name: "stream",
          x: zeros([2, elements]),
          fn: (x: Tensor) => x.slice([0, 0], [1, elements]).add(x.slice([1, 0], [2, elements]).mul(0.5)),
        },
        {
          name: "middling",
          x: zeros([middling.side, middling.side]),
          fn: (x: Tensor) => repeat(middling.products, x, (y) => y.matmul(x)),
        },
        { name: "calls", x: zeros([8, 8]), fn: (x: Tensor) => repeat(calls, x, (y) => y.matmul(x)) },
      ]
    : Object.entries(links.elements).map(([name, count]) => {
        const type = { dtype: "f32", shape: [runtime.world, count] } as const;
        const data = new Float32Array(runtime.world * count);
        return { name, x: distribute(runtime, data, type, shardedOn(meshOf(runtime), { data: 0 })), fn: sums };
      });
for (const { name, x, fn } of programs) {
  const run = jit(fn, { name });
  for (let step = 0; step < steps; step++) {
    const y = run(x);
    // One at a time: what is timed is a run, not a queue.
    await y.data();
    y.dispose();
  }
}
