/**
 * Feeds 100,000 mutated inputs to every parser that faces a wire or a file.
 *
 *     npm run fuzz                      # all of them
 *     npm run fuzz -- 5000 onnx npz     # 5,000 inputs, these parsers
 *     npm run fuzz -- 5000-20000 onnx   # the inputs of these numbers
 */
import { Worker } from "node:worker_threads";
import { fuzz } from "./engine.ts";
import { targets } from "./targets.ts";

const [inputs = "100000", ...names] = process.argv.slice(2);
const [end, first = 0] = inputs.split("-").map(Number).reverse() as [number, number?];
// A parser that does not end holds this thread: another one says which.
const shared = new SharedArrayBuffer(12);
const now = new Int32Array(shared);
const watch = new Worker(
  `const { workerData } = require("node:worker_threads");
  const now = new Int32Array(workerData.shared);
  let [last, since] = [-1, Date.now()];
  setInterval(() => {
    if (now[2] !== last) [last, since] = [now[2], Date.now()];
    else if (Date.now() - since > 60_000) {
      require("node:fs").writeSync(2, workerData.names[now[0]] + ": input " + now[1] + " does not end\\n");
      process.kill(process.pid, "SIGKILL");
    }
  }, 1000).unref();`,
  { eval: true, workerData: { shared, names: targets.map(({ name }) => name) } },
);
let failed = false;
for (const [number, target] of targets.entries()) {
  if (names.length > 0 && !names.includes(target.name)) continue;
  const started = performance.now();
  const onInput = (index: number): void => {
    now[0] = number;
    now[1] = index;
    Atomics.add(now, 2, 1);
  };
  const findings = await fuzz(target, end - first, onInput, first);
  const seconds = ((performance.now() - started) / 1000).toFixed(1);
  console.log(
    `${target.name.padEnd(16)}${findings.length === 0 ? "nothing found" : `${findings.length} findings`}, ${seconds} s`,
  );
  for (const { index, input, problem } of findings) {
    failed = true;
    console.log(`  input ${index}: ${problem}\n  ${Buffer.from(input).toString("base64").slice(0, 2000)}`);
  }
}
await watch.terminate();
process.exitCode = failed ? 1 : 0;
