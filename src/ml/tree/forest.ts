/** @module Trees as one matrix, which is saved with a model, and the walk of examples down to leaves. */

import { dense, type Matrix } from "../../matrix/index.ts";
import type { Tree } from "./grow.ts";

/** Trees one after another: a row for each node, with its feature, threshold, left and right node, gain, then its values. */
export function packed(trees: readonly Tree[], outputs: number): { readonly nodes: Matrix; readonly roots: Matrix } {
  const width = 5 + outputs;
  const count = trees.reduce((sum, { feature }) => sum + feature.length, 0);
  const data = new Float64Array(count * width);
  const roots: number[] = [];
  let first = 0;
  for (const { feature, threshold, left, right, gain, value } of trees) {
    roots.push(first);
    for (let node = 0; node < feature.length; node++) {
      const leaf = feature[node] === -1;
      const links = leaf ? [-1, -1] : [first + (left[node] as number), first + (right[node] as number)];
      const row = [feature[node] as number, threshold[node] as number, ...links, gain[node] as number];
      data.set(row, (first + node) * width);
      data.set(value.slice(node * outputs, (node + 1) * outputs), (first + node) * width + 5);
    }
    first += feature.length;
  }
  return { nodes: dense(data, count, width), roots: dense(Float64Array.from(roots), roots.length, 1) };
}

/**
 * Sums of the trees' values. Tree i adds to output i modulo `groups` when its nodes have one value, else to all outputs.
 */
export function sumsOfTrees(x: Matrix, nodes: Matrix, roots: Matrix, groups = 1): Float64Array {
  const [data, table, starts] = [x.dataSync(), nodes.dataSync(), roots.dataSync()];
  const width = nodes.columns;
  const outputs = width - 5;
  const all = outputs * groups;
  const sums = new Float64Array(x.rows * all);
  for (let tree = 0; tree < starts.length; tree++) {
    const into = groups === 1 ? 0 : tree % groups;
    for (let row = 0; row < x.rows; row++) {
      let at = (starts[tree] as number) * width;
      const first = row * x.columns;
      while ((table[at] as number) >= 0)
        at =
          width *
          (table[
            at + ((data[first + (table[at] as number)] as number) <= (table[at + 1] as number) ? 2 : 3)
          ] as number);
      const to = row * all + into;
      for (let output = 0; output < outputs; output++)
        sums[to + output] = (sums[to + output] as number) + (table[at + 5 + output] as number);
    }
  }
  return sums;
}

/** The part of the gains that splits by each feature have; of trees without a split all are 0. */
export function importances(nodes: Matrix, columns: number): Matrix {
  const [table, width] = [nodes.dataSync(), nodes.columns];
  const gains = new Float64Array(columns);
  for (let at = 0; at < table.length; at += width) {
    const feature = table[at] as number;
    if (feature >= 0) gains[feature] = (gains[feature] as number) + (table[at + 4] as number);
  }
  const total = gains.reduce((sum, gain) => sum + gain, 0);
  return dense(total === 0 ? gains : gains.map((gain) => gain / total), 1, columns);
}
