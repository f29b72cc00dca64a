/**
 * What a user's file does, on a small scale: trains on made-up data, for as long as it is let.
 *
 *     heddle run test/e2e/workload.ts --workers 2 -- '{"epochs":1000,"directory":"…"}'
 */
import { data, losses, nn, optim, train } from "heddle";
import { mesh } from "heddle/plan";

interface Options {
  readonly epochs: number;
  readonly batch: number;
  readonly rows: number;
  readonly directory?: string;
  readonly every?: number;
  readonly dtype?: "f32" | "f64";
  /** Other batch size on this rank: the ranks then run different programs. */
  readonly odd?: number;
  readonly learningRate?: number;
  /** A convnet instead of a perceptron. */
  readonly convnet?: boolean;
  /** Virtual devices in one process. */
  readonly devices?: number;
}

const options: Options = {
  epochs: 100000,
  batch: 64,
  rows: 512,
  ...(JSON.parse(process.argv[2] ?? "{}") as Partial<Options>),
};
console.log(`worker ${process.env["RANK"] ?? "0"} is process ${process.pid}`);

const features = 64;
const perceptron = nn.sequential(nn.flatten(), nn.linear(256), nn.relu(), nn.dropout(0.25), nn.linear(4));
const convnet = nn.sequential(
  nn.conv2d({ out: 8, kernel: 3, padding: "same" }),
  nn.relu(),
  nn.maxPool2d(2),
  nn.conv2d({ out: 16, kernel: 3, padding: "same" }),
  nn.relu(),
  nn.maxPool2d(2),
  nn.flatten(),
  nn.linear(32),
  nn.relu(),
  nn.dropout(0.5),
  nn.linear(4),
);
const x = Float32Array.from(
  { length: options.rows * features },
  (_unused, index) => Math.sin(index * 0.37) * ((index % 7) - 3),
);
const y = Uint8Array.from(
  { length: options.rows },
  (_unused, row) => ((x[row * features] as number) > 0 ? 1 : 0) + 2 * (row % 2),
);
const batch = options.odd !== undefined && process.env["RANK"] === "1" ? options.odd : options.batch;

const result = await train({
  model: options.convnet === true ? convnet : perceptron,
  data: data
    .fromArrays({
      x: { shape: [options.rows, 1, 8, 8], data: x },
      y: { shape: [options.rows], data: y, transform: { dtype: "i32" } },
    })
    .shuffle()
    .batch(batch),
  loss: losses.softmaxCrossEntropy,
  optimizer: optim.sgd({ learningRate: options.learningRate ?? 0.01, momentum: 0.9, nesterov: true }),
  epochs: options.epochs,
  dtype: options.dtype ?? "f32",
  report: "silent",
  ...(options.devices === undefined ? {} : { mesh: mesh({ data: options.devices }) }),
  ...(options.directory === undefined
    ? {}
    : { checkpoint: { directory: options.directory, every: options.every ?? "epoch" } }),
  callbacks: {
    onStep: ({ step, loss }) => {
      if (process.env["RANK"] !== "1" && (step <= 5 || step % 50 === 0)) console.log(`step ${step} loss ${loss}`);
    },
  },
});
const weights = await Promise.all(
  Object.values(result.params as Record<string, Record<string, { data(): Promise<Float32Array> }>>).flatMap((layer) =>
    Object.values(layer).map((tensor) => tensor.data()),
  ),
);
// Every bit of every weight, in one number.
let digest = 2166136261;
for (const weight of weights)
  for (const byte of new Uint8Array(weight.buffer, weight.byteOffset, weight.byteLength))
    digest = Math.imul(digest ^ byte, 16777619) >>> 0;
if (process.env["RANK"] !== "1") console.log(`digest ${digest}`);
