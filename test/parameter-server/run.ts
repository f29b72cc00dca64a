/**
 * Trains a small network in f64 and prints values and history on rank 0. Arguments: the number of epochs, a pause for each step in ms, and a
 * file for which every worker waits before it trains; as options, the filters of pushes, separated by commas.
 */
import { existsSync } from "node:fs";
import { setTimeout as pauseFor } from "node:timers/promises";
import { data, isTensor, losses, nn, optim, train } from "heddle";
import { flattenTree } from "../../src/util/tree.ts";

const [epochs, pause] = process.argv.slice(2, 4).map(Number) as [number, number];
const signal = process.argv[4];
const { FILTERS: filters } = process.env;
if (signal !== undefined) {
  console.log("before the training");
  while (!existsSync(signal)) await pauseFor(20);
}
const rows = 48;
const x = Float32Array.from({ length: 3 * rows }, (_unused, index) => Math.sin(index * 1.7));
const points = data.fromArrays({
  x: { shape: [rows, 3], data: x },
  y: { shape: [rows], data: Int32Array.from({ length: rows }, (_unused, row) => (Number(x[3 * row]) > 0 ? 1 : 0)) },
});
const result = await train({
  model: nn.sequential(nn.linear(6), nn.tanh(), nn.linear(2)),
  data: points.shuffle().batch(14),
  loss: losses.softmaxCrossEntropy,
  optimizer: optim.adam({ learningRate: 0.02 }),
  epochs,
  dtype: "f64",
  report: "lines",
  ...(filters === undefined ? {} : { server: { filters: filters.split(",") } }),
  callbacks: {
    onStep: async ({ step }) => {
      if (step === 4) console.log("under way");
      await pauseFor(pause);
    },
  },
});
const { leaves } = flattenTree(result.params, isTensor);
const values = (await Promise.all(leaves.map((leaf) => leaf.data()))).flatMap((list) => [...list].map(Number));
const history = result.history.map(({ loss }) => loss);
result.print(JSON.stringify({ values, history }));
