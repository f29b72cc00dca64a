/** Trains with local steps as the JSON of the first argument says, and prints parameters, losses and a hash of all that is kept, on rank 0. */
import { createHash } from "node:crypto";
import { isTensor, losses, replicate, type Tensor, train } from "heddle";
import { flattenTree } from "../../../src/util/tree.ts";
import { bars, inner, linear, outers } from "../synthetic-local.ts";

interface Given {
  readonly steps: number;
  readonly outer?: keyof typeof outers;
  readonly epochs: number;
  readonly directory?: string;
  readonly every?: number;
  readonly stop?: { readonly rank: number; readonly step: number };
}

const { steps, outer, epochs, directory, every, stop } = JSON.parse(process.argv[2] as string) as Given;
const rank = Number(process.env["RANK"] ?? 0);
const result = await train({
  model: linear(),
  data: bars(44).shuffle().batch(12),
  evaluate: bars(33, { seed: 5 }),
  loss: losses.softmaxCrossEntropy,
  optimizer: inner(),
  localSteps: { steps, ...(outer === undefined ? {} : { outer: outers[outer]() }) },
  epochs,
  dtype: "f64",
  report: rank === 0 ? "lines" : "silent",
  ...(directory === undefined
    ? {}
    : { checkpoint: { directory, keep: 100, ...(every === undefined ? {} : { every }) } }),
  callbacks: {
    onStep: ({ step }, control) => {
      if (stop?.rank === rank && stop.step === step) control.stop();
    },
  },
});
const numbers = async (tree: unknown): Promise<number[]> => {
  const all: number[] = [];
  for (const leaf of flattenTree(tree, isTensor).leaves)
    all.push(...(await replicate(leaf as Tensor).data()).map(Number));
  return all;
};
const params = await numbers(result.params);
const state = await numbers(result.optimizerState);
const hash = createHash("sha256").update(Float64Array.from([...params, ...state]));
const told = {
  params,
  steps: result.steps,
  losses: result.history.map(({ loss }) => loss),
  examples: result.history.map(({ seconds, examplesPerSecond }) => Math.round(seconds * examplesPerSecond)),
  validation: result.history.map(({ validation }) => validation?.loss),
  sent: result.sentBytes,
  hash: hash.digest("hex"),
};
console.log(`rank ${rank}: ${JSON.stringify(rank === 0 ? told : { params, hash: told.hash })}`);
