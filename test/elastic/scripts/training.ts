/**
 * A small training in f64 whose workers fail as the arguments say, such as `kill:1@5` (rank 1 in step 5 of the first workers) or
 * `stop:1@5`, `host:1@5`, `exit:1@5`, `throw:1@5`, `kill:0@start`, `kill:0@end`. The last argument is a folder, where rank 0 writes `result.json`.
 */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { data, layouts, losses, nn, optim, type TrainOptions, train } from "heddle";

const [faults = "", kind = "plain", pause = "10", folder = "."] = process.argv.slice(2);
// A worker that was started later does no harm.
const isFirst = process.env["HEDDLE_ELASTIC"] !== "new";

async function meet(at: string): Promise<void> {
  for (const [index, fault] of (isFirst ? faults.split(",") : []).entries()) {
    // With copies, steps are done again: each fault has an epoch of its own.
    if (kind.includes("copies") && process.env["HEDDLE_EPOCH"] !== String(index)) continue;
    const [, what, rank, when] = /^(\w+):(\d+)@(\w+)$/.exec(fault) ?? [];
    if (rank !== process.env["RANK"] || when !== at) continue;
    if (what === "kill") process.kill(process.pid, "SIGKILL");
    // The agent of the worker's host.
    if (what === "host") process.kill(process.ppid, "SIGKILL");
    if (what === "stop") process.kill(process.pid, "SIGSTOP");
    if (what === "exit") process.exit(7);
    if (what === "leave") process.exit(0);
    if (what === "throw") throw new RangeError("a callback's own error");
    await sleep(1000);
  }
}

const rows = 200;
const x = Float64Array.from({ length: rows * 6 }, (_unused, index) => Math.sin(1.7 * index));
const y = Int32Array.from({ length: rows }, (_unused, row) => ((x[6 * row] as number) > 0 ? 1 : 0));
const steps: number[] = [];
const options: TrainOptions = {
  model: nn.sequential(nn.linear(12), nn.relu(), nn.dropout(0.2), nn.linear(2)),
  data: data
    .fromArrays({ x: { shape: [rows, 6], data: x }, y: { shape: [rows], data: y } })
    .shuffle()
    .batch(30),
  evaluate: data.fromArrays({ x: { shape: [rows, 6], data: x }, y: { shape: [rows], data: y } }),
  loss: losses.softmaxCrossEntropy,
  optimizer: optim.adam({ learningRate: 0.01 }),
  epochs: Number(/^plain (\d+)/.exec(kind)?.[1] ?? 4),
  dtype: "f64",
  report: "lines",
  ...(kind.includes("sharded") ? { layout: layouts.fullySharded() } : {}),
  ...(kind.includes("copies") ? { memoryCopies: Number(/copies (\d+)/.exec(kind)?.[1]) } : {}),
  ...(kind.includes("checkpoint") ? { checkpoint: { directory: join(folder, "checkpoints"), every: 2 } } : {}),
  callbacks: [
    {
      onStep: async ({ step }) => {
        steps.push(step);
        await meet(String(step));
        await sleep(Number(pause));
      },
      onEpoch: ({ epoch }) => meet(`epoch${epoch}`),
    },
  ],
};

await meet("start");
if (kind.includes("twice")) await train({ ...options, epochs: 1, callbacks: [] });
const result = await train(options);
await meet("end");
const { history } = result;
if (result.rank === 0)
  writeFileSync(
    join(folder, "result.json"),
    JSON.stringify({
      losses: history.flatMap(({ loss, validation }) => [loss, validation?.loss]),
      workers: Number(process.env["WORLD_SIZE"]),
      steps,
    }),
  );
