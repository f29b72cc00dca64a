/** @module Warnings about options of a training that are allowed, but probably a mistake. */
import type { Column, Dataset } from "../data/browser.ts";
import { binaryCrossEntropyWithLogits, softmaxCrossEntropy } from "../losses/index.ts";
import { channelsFirst, looksChannelsLast } from "../nn/convolution.ts";
import type { Layer } from "../nn/index.ts";
import { formatMesh, type Mesh } from "../plan/index.ts";
import { formatCount } from "../util/text.ts";
import { namesIn, seenTypes, single } from "./columns.ts";
import type { Settings } from "./options.ts";

/** Datasets with more rows are not searched for a warning. */
const mostRows = 1_000_000;
/** Columns with more rows are not, either: the search takes a byte for each. */
const mostSourceRows = 2 ** 26;

/** The warnings, one line each. Reads the input columns, which the training reads anyway. */
export async function suspicions(settings: Settings, mesh: Mesh): Promise<string[]> {
  const lines = [imageLine(settings), twiceLine(settings), absentAxesLine(settings, mesh), await overlapLine(settings)];
  return lines.filter((line) => line !== undefined);
}

/** The layer that gets the input first, inside of composite layers. */
const firstLayer = (layer: Layer): Layer => (layer.layers?.[0] === undefined ? layer : firstLayer(layer.layers[0]));

function imageLine({ model, data, input, dtype }: Settings): string | undefined {
  const type = single(seenTypes(input, data, 1, dtype));
  if (type === undefined || firstLayer(model).kind !== "conv2d" || !looksChannelsLast(type.shape)) return undefined;
  const [, height, width, channels] = type.shape;
  return (
    `the images have ${height} channels and are ${width} high and ${channels} wide; if they are [height, width, channels], ` +
    channelsFirst
  );
}

/** The layer that computes the output, inside of sequential layers. */
function lastLayer(layer: Layer): Layer {
  const last = layer.kind === "sequential" ? Object.values(layer.layers ?? {}).at(-1) : undefined;
  return last === undefined ? layer : lastLayer(last);
}

/** A softmax or sigmoid at the end, before a loss that computes it, too: such a model trains badly. */
function twiceLine({ model, loss }: Settings): string | undefined {
  const { kind } = lastLayer(model);
  const name =
    kind === "softmax" && loss === softmaxCrossEntropy
      ? "softmaxCrossEntropy"
      : kind === "sigmoid" && loss === binaryCrossEntropyWithLogits
        ? "binaryCrossEntropyWithLogits"
        : undefined;
  if (name === undefined) return undefined;
  return `the model ends in ${kind}, but losses.${name} computes the ${kind} itself: leave the last layer out`;
}

/** Axes of a layout that the mesh does not have. On a single device nothing is sharded anyway. */
function absentAxesLine({ layoutRules }: Settings, mesh: Mesh): string | undefined {
  const known = mesh.axes.map(({ name }) => name);
  const absent = [...new Set(layoutRules.flatMap(({ axes = [] }) => axes))].filter((name) => !known.includes(name));
  if (absent.length === 0 || mesh.axes.every(({ size }) => size === 1)) return undefined;
  return `layout shards over ${absent.join(", ")}, which the mesh ${formatMesh(mesh)} does not have: these parameters stay replicated`;
}

async function overlapLine({ data, evaluate, input, seed }: Settings): Promise<string | undefined> {
  if (evaluate === undefined) return undefined;
  const shared = await sharedRows(data, evaluate, namesIn(input)[0] as string, seed);
  if (shared === 0) return undefined;
  return (
    `validation: ${formatCount(shared)} of its ${formatCount(evaluate.length)} rows are training rows, too, so it says little about other ` +
    "data; hold rows out: data: all.skip(n), evaluate: all.take(n)"
  );
}

/** The number of rows that two batched datasets share, found by their place in memory. */
async function sharedRows(data: Dataset, evaluate: Dataset, input: string, seed: number): Promise<number> {
  if (Math.max(data.length, evaluate.length) > mostRows) return 0;
  const [trained, held] = [data, evaluate].map((dataset) => dataset.columns.get(input) as Column) as [Column, Column];
  // Columns that are read by their rows share rows only if they read the same file.
  const isRead = trained.read !== undefined || held.read !== undefined;
  if (isRead) return trained.read === held.read ? sharedAt(data, evaluate, trained, 0, seed) : 0;
  const [trainedValues, heldValues] = await Promise.all([trained.load(), held.load()]);
  const rowBytes = trainedValues.byteLength / (trained.shape[0] as number);
  if (trainedValues.buffer !== heldValues.buffer || heldValues.byteLength / (held.shape[0] as number) !== rowBytes)
    return 0;
  const distance = (heldValues.byteOffset - trainedValues.byteOffset) / rowBytes;
  return sharedAt(data, evaluate, trained, distance, seed);
}

/** The number of rows that two datasets share, where row `i` of the one is row `i + distance` of the other. */
function sharedAt(data: Dataset, evaluate: Dataset, trained: Column, distance: number, seed: number): number {
  if ((trained.shape[0] as number) > mostSourceRows) return 0;
  const seen = new Uint8Array(trained.shape[0] as number);
  // Every epoch has the same rows, possibly in another order.
  for (const row of rowsOf(data, seed)) seen[row] = 1;
  let shared = 0;
  for (const row of rowsOf(evaluate, seed)) shared += seen[row + distance] ?? 0;
  return shared;
}

function* rowsOf(dataset: Dataset, seed: number): Generator<number> {
  for (let step = 0; step < dataset.batchesPerEpoch; step++) yield* dataset.batchRows(0, step, { seed }).rows;
}
