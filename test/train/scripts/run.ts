/**
 * Trains the small convnet as the JSON of the first argument says, and prints the losses and a hash of the result as
 * one line of JSON on rank 0.
 */
import { createHash } from "node:crypto";
import { isTensor, layouts, losses, mesh, optim, replicate, train } from "heddle";
import { flattenTree } from "../../../src/util/tree.ts";
import { bars, convnet } from "../synthetic.ts";

interface Settings {
  readonly epochs: number;
  readonly batch?: number;
  readonly dtype?: "f32" | "f64";
  readonly directory?: string;
  readonly every?: number;
  /** What rank 1 does otherwise than the others. */
  readonly odd?: "batch" | "data" | "schedule";
  readonly rate?: number;
  /** The mesh; in one process its devices are virtual. */
  readonly axes?: { readonly [axis: string]: number };
  /** Which parameters are split: the convnet's dense layers over `model`, or all over `data`. */
  readonly layout?: "dense" | "all";
  /** Layers on two stages: in one process, or in two. */
  readonly pipeline?: boolean;
  /** How gradients are compressed, by the name of a registered compressor; momentum takes the place of the optimizer's. */
  readonly compression?: { readonly by: string; readonly momentum?: number; readonly least: number };
  /** A rank that ends without a word at step 5. */
  readonly dies?: number;
  /** Milliseconds that each step takes more. */
  readonly slow?: number;
}

const {
  epochs,
  batch = 16,
  dtype = "f64",
  directory,
  every = 1,
  odd,
  rate = 0.05,
  axes,
  layout,
  pipeline = false,
  compression,
  dies,
  slow = 0,
} = JSON.parse(process.argv[2] ?? "{}") as Settings;
const rules = {
  dense: layouts.named({ "4.weight": { model: 0 }, "4.bias": { model: 0 }, "7.weight": { model: 1 } }),
  all: layouts.fullySharded(),
};
const isOdd = (what: Settings["odd"]): boolean => odd === what && process.env["RANK"] === "1";
const found: number[] = [];
const result = await train({
  model: convnet(),
  data: bars(64, { seed: isOdd("data") ? 2 : 1 })
    .shuffle()
    .batch(isOdd("batch") ? batch / 2 : batch),
  evaluate: bars(33, { seed: 5 }),
  loss: losses.softmaxCrossEntropy,
  optimizer: optim.sgd({
    // Alike for the first steps.
    learningRate: (step) => (isOdd("schedule") && step >= 3 ? rate / 2 : rate),
    ...(compression?.momentum === undefined ? { momentum: 0.9, nesterov: true } : {}),
  }),
  epochs,
  dtype,
  report: "lines",
  ...(axes === undefined ? {} : { mesh: mesh(axes) }),
  ...(compression === undefined ? {} : { compression }),
  ...(layout === undefined ? {} : { layout: rules[layout] }),
  ...(pipeline ? { pipeline: { stages: { 0: 0, 4: 1, 7: 1 }, microBatches: 4 } } : {}),
  ...(directory === undefined ? {} : { checkpoint: { directory, every, keep: 3 } }),
  callbacks: {
    onStep: async ({ loss, step }) => {
      found.push(loss);
      if (step === 4) console.log("under way");
      if (step === 6 && process.env["RANK"] === String(dies)) process.exit(9);
      await new Promise((resolve) => setTimeout(resolve, slow));
    },
  },
});
const hash = createHash("sha256");
for (const leaf of flattenTree([result.params, result.optimizerState], isTensor).leaves)
  hash.update(await replicate(leaf).data());
result.print(
  JSON.stringify({ losses: found, accuracy: result.accuracy, steps: result.steps, hash: hash.digest("hex") }),
);
