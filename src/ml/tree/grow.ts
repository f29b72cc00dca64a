/**
 * @module Growing a tree by histograms. A split's gain is S²/(W + penalty) summed over outputs and both sides, less that of the node, with S the
 * sums of targets and W those of weights: of class indicators it is the gain in Gini impurity, of numbers that in squared error, of
 * gradients and Hessians that of gradient boosting (Chen and Guestrin, 2016, equation 7).
 */

import type { Binned } from "./bins.ts";

/** What a tree is grown for. */
export interface Growth {
  readonly binned: Binned;
  /** Of each example, a number for each output. */
  readonly targets: Float64Array;
  readonly outputs: number;
  /** Of each example; its sum with `penalty` divides the sums of targets. */
  readonly weights: Float64Array;
  readonly penalty: number;
  readonly maxDepth: number;
  /** Most leaves; nodes with the largest gain are split first. */
  readonly maxLeaves: number;
  readonly minSplit: number;
  readonly minLeaf: number;
  /** Features that may be split at each node, drawn anew. */
  readonly features: number;
  readonly draw: () => number;
}

/** Nodes in the order in which they were made; a leaf has feature -1. */
export interface Tree {
  readonly feature: number[];
  /** Examples up to this value go left. */
  readonly threshold: number[];
  readonly left: number[];
  readonly right: number[];
  readonly gain: number[];
  /** Of each node, a number for each output. */
  readonly value: number[];
}

interface Split {
  readonly feature: number;
  readonly bin: number;
  readonly threshold: number;
  readonly gain: number;
}

interface Open {
  readonly node: number;
  readonly depth: number;
  readonly rows: Int32Array;
  readonly split: Split;
}

/** Sums over a histogram: of each bin the outputs' targets, the weights, and the number of examples. */
class Histogram {
  readonly width: number;
  readonly sums: Float64Array;

  constructor(outputs: number) {
    this.width = outputs + 2;
    this.sums = new Float64Array(256 * this.width);
  }

  fill({ binned, targets, outputs, weights }: Growth, rows: Int32Array, feature: number): void {
    const { sums, width } = this;
    sums.fill(0);
    const first = feature * binned.rows;
    for (let index = 0; index < rows.length; index++) {
      const row = rows[index] as number;
      const at = (binned.codes[first + row] as number) * width;
      for (let output = 0; output < outputs; output++)
        sums[at + output] = (sums[at + output] as number) + (targets[row * outputs + output] as number);
      sums[at + outputs] = (sums[at + outputs] as number) + (weights[row] as number);
      sums[at + outputs + 1] = (sums[at + outputs + 1] as number) + 1;
    }
  }
}

/** Grows a tree over some examples, which may occur several times. */
export function grow(growth: Growth, rows: Int32Array): Tree {
  const tree: Tree = { feature: [], threshold: [], left: [], right: [], gain: [], value: [] };
  const histogram = new Histogram(growth.outputs);
  const open: Open[] = [];
  const add = (members: Int32Array, depth: number): number => {
    const node = tree.feature.length;
    const totals = totalsOf(growth, members);
    const { feature, threshold, left, right, gain } = tree;
    for (const list of [feature, left, right]) list.push(-1);
    for (const list of [threshold, gain]) list.push(0);
    const weight = (totals[growth.outputs] as number) + growth.penalty;
    for (let output = 0; output < growth.outputs; output++) tree.value.push((totals[output] as number) / weight);
    if (depth < growth.maxDepth && members.length >= growth.minSplit) {
      const split = bestSplit(growth, histogram, members, totals);
      if (split !== undefined) open.push({ node, depth, rows: members, split });
    }
    return node;
  };
  add(rows, 0);
  for (let leaves = 1; open.length > 0 && leaves < growth.maxLeaves; leaves++) {
    const next = open.reduce((best, one, at) => (one.split.gain > (open[best] as Open).split.gain ? at : best), 0);
    const [{ node, depth, rows: members, split }] = open.splice(next, 1) as [Open];
    const [left, right] = divided(growth.binned, members, split);
    tree.feature[node] = split.feature;
    tree.threshold[node] = split.threshold;
    tree.gain[node] = split.gain;
    tree.left[node] = add(left, depth + 1);
    tree.right[node] = add(right, depth + 1);
  }
  return tree;
}

function totalsOf({ targets, outputs, weights }: Growth, rows: Int32Array): Float64Array {
  const totals = new Float64Array(outputs + 2);
  for (const row of rows) {
    for (let output = 0; output < outputs; output++)
      totals[output] = (totals[output] as number) + (targets[row * outputs + output] as number);
    totals[outputs] = (totals[outputs] as number) + (weights[row] as number);
  }
  totals[outputs + 1] = rows.length;
  return totals;
}

function scoreOf(sums: Float64Array, outputs: number, penalty: number): number {
  let score = 0;
  for (let output = 0; output < outputs; output++) score += (sums[output] as number) ** 2;
  return score / ((sums[outputs] as number) + penalty);
}

/** Gains this small are rounding. */
const leastGain = 1e-12;

function bestSplit(growth: Growth, histogram: Histogram, rows: Int32Array, totals: Float64Array): Split | undefined {
  const { binned, outputs, penalty, minLeaf } = growth;
  const before = scoreOf(totals, outputs, penalty);
  const [left, right] = [new Float64Array(outputs + 2), new Float64Array(outputs + 2)];
  let best: Split | undefined;
  for (const feature of featuresOf(growth)) {
    const { low, high } = binned.bounds[feature] as Binned["bounds"][number];
    if (high.length < 2) continue;
    histogram.fill(growth, rows, feature);
    const { sums, width } = histogram;
    left.fill(0);
    let last = -1;
    for (let bin = 0; bin < high.length; bin++) {
      const at = bin * width;
      if (sums[at + outputs + 1] === 0) continue;
      const [count, rest] = [left[outputs + 1] as number, rows.length - (left[outputs + 1] as number)];
      if (last >= 0 && count >= minLeaf && rest >= minLeaf) {
        for (let part = 0; part < width; part++) right[part] = (totals[part] as number) - (left[part] as number);
        const gain = scoreOf(left, outputs, penalty) + scoreOf(right, outputs, penalty) - before;
        if (gain > leastGain * Math.max(1, Math.abs(before)) && gain > (best?.gain ?? 0) * (1 + leastGain))
          best = { feature, bin: last, threshold: between(high[last] as number, low[bin] as number), gain };
      }
      for (let part = 0; part < width; part++) left[part] = (left[part] as number) + (sums[at + part] as number);
      last = bin;
    }
  }
  return best;
}

/** The middle of two numbers; the lower one where rounding makes the middle the upper one. */
function between(low: number, high: number): number {
  const middle = low + (high - low) / 2;
  return middle < high ? middle : low;
}

/** All features, or a few of them, drawn without repetition. */
function featuresOf({ binned: { columns }, features, draw }: Growth): number[] {
  const all = Array.from({ length: columns }, (_unused, column) => column);
  if (features >= columns) return all;
  for (let at = 0; at < features; at++) {
    const other = at + Math.floor(draw() * (columns - at));
    [all[at], all[other]] = [all[other] as number, all[at] as number];
  }
  return all.slice(0, features);
}

function divided({ codes, rows: length }: Binned, rows: Int32Array, { feature, bin }: Split): [Int32Array, Int32Array] {
  const first = feature * length;
  let count = 0;
  for (const row of rows) if ((codes[first + row] as number) <= bin) count++;
  const [left, right] = [new Int32Array(count), new Int32Array(rows.length - count)];
  let [toLeft, toRight] = [0, 0];
  for (const row of rows)
    if ((codes[first + row] as number) <= bin) left[toLeft++] = row;
    else right[toRight++] = row;
  return [left, right];
}
