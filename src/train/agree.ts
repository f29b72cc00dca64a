/** @module Compares what must be the same on every rank of a training, before the first step. */
import type { Column, Dataset } from "../data/browser.ts";
import { learningRatesAt } from "../optim/optimizer.ts";
import { printPlan } from "../plan/index.ts";
import { canonicalJson } from "../util/text.ts";
import { columnNames } from "./functions.ts";
import { host } from "./host.ts";
import type { RunParts } from "./parts.ts";

/**
 * Compares with all other ranks the program of a step and the values that it reads (contents of columns, learning rates). Ranks that
 * differ there would silently train different models.
 *
 * @throws HeddleError `mismatch` naming both sides.
 */
export async function agree(parts: Omit<RunParts, "saver">): Promise<void> {
  const { runtime, programs, types, elastic, updates } = parts;
  if (runtime.processes === undefined) return;
  const { settings } = updates?.whole ?? parts;
  const { data, epochs, seed, evaluate, optimizer } = settings;
  host.process?.report({ type: "doing", what: "reading data" });
  const contents = (what: string, dataset: Dataset): Promise<string[]> =>
    datasetLines(
      what,
      dataset,
      columnNames(settings, dataset),
      seed,
      elastic?.digests,
      settings.compareData === "whole",
    );
  const lines = [
    ...(await contents("data", data)),
    ...(evaluate === undefined ? [] : await contents("evaluate", evaluate)),
    `epochs: ${epochs}`,
    `seed: ${seed}`,
    `metrics: ${Object.keys(types.metrics).join(", ")}`,
    `optimizer: ${optimizer.name}`,
    `nan: ${settings.nan}, spike ${settings.spike}, rollback ${settings.rollback}`,
    `checkReplicas: ${settings.checkReplicas}`,
    `memoryCopies: ${settings.memoryCopies}`,
    `machine: ${JSON.stringify(settings.machine ?? runtime.machine ?? null)}`,
    ...sampledSteps(epochs * data.batchesPerEpoch).map(
      (step) => `learning rate of step ${step}: ${learningRatesAt(optimizer, step).values.join(", ")}`,
    ),
  ];
  host.process?.report({ type: "doing", what: "compiling" });
  lines.push(...(updates?.lines ?? []), printPlan(programs.step().plan));
  host.process?.report({ type: "doing", what: "comparing its program with the other ranks" });
  await runtime.processes.agree("program", lines.join("\n"));
}

/** A column in memory with more bytes is compared by a sample of blocks, as one in a file is. */
const smallBytes = 2 ** 26;
const sampledBlocks = 64;
const blockBytes = 2 ** 16;

/** A dataset's description, and what the rows of each column that a run reads are recognised by; hashes in `known` are taken from there. */
export async function datasetLines(
  what: string,
  dataset: Dataset,
  columns: readonly string[],
  seed: number,
  known = new Map<string, string>(),
  whole = false,
): Promise<string[]> {
  const described = Object.entries(dataset.describe(seed)).map(
    ([name, value]) => `${what}: ${name} ${canonicalJson(value)}`,
  );
  const hash = async (name: string): Promise<string> => {
    const column = dataset.columns.get(name) as Column;
    const { first, count } = dataset.sourceRows;
    if (column.identity !== undefined) return host.sha256(utf8(await column.identity({ first, count }, whole)));
    const { buffer, byteOffset, byteLength } = await column.load();
    const rowBytes = byteLength / Math.max(column.shape[0] as number, 1);
    const bytes = new Uint8Array(buffer, byteOffset + first * rowBytes, count * rowBytes);
    return host.sha256(whole ? bytes : sampled(bytes));
  };
  const digests = columns.map(async (name) => {
    const line = `${what}: contents of column "${name}"`;
    const digest = known.get(line) ?? (await hash(name));
    known.set(line, digest);
    return `${line} ${digest.slice(0, 16)}`;
  });
  return [...described, ...(await Promise.all(digests))];
}

const utf8 = (text: string): Uint8Array => new TextEncoder().encode(text);

/** Bytes that a hash of many bytes is made of: blocks from the first to the last, equally far apart. */
function sampled(bytes: Uint8Array): Uint8Array {
  if (bytes.length <= smallBytes) return bytes;
  const sample = new Uint8Array(sampledBlocks * blockBytes);
  for (let block = 0; block < sampledBlocks; block++) {
    const from = Math.floor((block * (bytes.length - blockBytes)) / (sampledBlocks - 1));
    sample.set(bytes.subarray(from, from + blockBytes), block * blockBytes);
  }
  return sample;
}

/** The first step, the powers of two, and the last step: different schedules differ early or late. */
function sampledSteps(count: number): number[] {
  const steps = [0];
  for (let step = 1; step < count; step *= 2) steps.push(step);
  if (count > 0 && !steps.includes(count - 1)) steps.push(count - 1);
  return steps;
}
