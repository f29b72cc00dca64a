/** Runs loops that never await; prints live buffers and growth of resident memory while each still runs. */
import { setImmediate as turn } from "node:timers/promises";
import { loadNative } from "../../src/executors/native/binding.ts";
import { full, jit, type Tensor } from "../../src/functions/index.ts";

const native = loadNative();
if ("error" in native) throw new Error(native.error);

const x = full([360, 360], 1);
// Thin, so that a product costs little more than what makes it too long to run in place.
const [tall, flat] = [full([360, 24], 1), full([24, 360], 1)];
const step = jit(
  (state: { w: Tensor }) => ({
    w: state.w
      .matmul(tall)
      .matmul(flat)
      .mul(1 / 8640),
  }),
  { donate: [0] },
);

/** Each is called 20,000 times or fewer, without a turn of the event loop. */
const loops: Record<string, { count: number; make: () => () => void }> = {
  dropped: { count: 20_000, make: () => () => void x.add(1) },
  chained: {
    count: 20_000,
    make: () => {
      let y = x;
      return () => {
        y = y.add(1);
      };
    },
  },
  // Too long to run in place.
  queued: { count: 2000, make: () => () => void tall.matmul(flat) },
  steps: {
    count: 2000,
    make: () => {
      let state = { w: full([360, 360], 1) };
      return () => {
        state = step(state);
      };
    },
  },
};

const results: Record<string, { buffers: number; growth: number }> = {};
for (const [name, { count, make }] of Object.entries(loops)) {
  const once = make();
  for (let index = 0; index < 200; index++) once();
  await turn();
  const before = process.memoryUsage.rss();
  let [buffers, growth] = [0, 0];
  for (let index = 0; index < count; index++) {
    once();
    if (index % 500 !== 499) continue;
    buffers = Math.max(buffers, native.memory().liveBuffers);
    growth = Math.max(growth, process.memoryUsage.rss() - before);
  }
  results[name] = { buffers, growth };
  await turn();
}
console.log(JSON.stringify(results));
