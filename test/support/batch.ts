/** @module Rows of the op table on batches, compared with one run for each element of the batch. */
import { expect } from "vitest";
import { batchGraph } from "../../src/autodiff/index.ts";
import { dtypes, isFloat } from "../../src/ir/dtype.ts";
import { inputSpecs, traceGraph } from "../../src/ir/graph.ts";
import type { Graph, HostTensor } from "../../src/ir/node.ts";
import { range, sizeOf } from "../../src/ir/shape.ts";
import { flopsTo, topological } from "../../src/ir/walk.ts";
import { broadcastInDim, evaluateGraph } from "../../src/ops/index.ts";
import type { Case } from "./grouped.ts";
import { type Evaluate, type Row, rowGraph } from "./row.ts";
import { difference, makeTensor, type Source } from "./tensors.ts";

export const batchSize = 3;

/** Other values of the same kind: other random numbers, given ones in another order, scalars near by. */
function varied(source: Source, element: number): HostTensor {
  const { dtype, shape, values } = source;
  if ("seed" in values) return makeTensor({ dtype, shape, values: { ...values, seed: values.seed + 1000 * element } });
  if (shape.length > 0)
    return makeTensor({
      dtype,
      shape,
      values: values.map((_value, at) => values[(at + element) % values.length] as number),
    });
  const [value] = values as [number];
  const near = dtype === "bool" ? (value + element) % 2 : Math.abs(value - element);
  return makeTensor({ dtype, shape, values: [isFloat(dtype) ? value + 0.25 * element : near] });
}

/** Larger values say nothing more of a batch, and take seconds in the reference. */
const mostElements = 2 ** 20;
/** Rows of more work than this are run on one batch only. */
const mostWork = 2 ** 20;

/** The sets of inputs that are batched: each alone, and all; all only where a row takes long. None of a row of millions of numbers. */
export function batchings(row: Row): boolean[][] {
  const { inputs, outputs } = rowGraph(row);
  if ([...inputs, ...topological(outputs)].some(({ shape }) => sizeOf(shape) > mostElements)) return [];
  const places = range(row.inputs.length);
  const alone = places.map((one) => places.map((place) => place === one));
  const all = places.map(() => true);
  if (flopsTo(outputs) > mostWork) return [all];
  return places.length > 1 ? [...alone, all] : alone;
}

/** The graph on a batch in front of some of its inputs; all results have it in front. */
export function onBatch(graph: Graph, batched: readonly boolean[], size: number): Graph {
  const specs = inputSpecs(graph).map(({ name, type }, place) => ({
    name,
    type: batched[place] ? { ...type, shape: [size, ...type.shape] } : type,
  }));
  return traceGraph(graph.name, specs, (...nodes) =>
    batchGraph(
      graph,
      nodes.map((node, place) => ({ node, batched: batched[place] === true })),
      size,
    ).map(({ node, batched: has }) =>
      has
        ? node
        : broadcastInDim(
            node,
            [size, ...node.shape],
            range(node.shape.length).map((dim) => dim + 1),
          ),
    ),
  );
}

/** Tensors of one type, stacked along a new dim 0. */
export function stack(tensors: readonly HostTensor[]): HostTensor {
  const { dtype, shape } = tensors[0] as HostTensor;
  const size = sizeOf(shape);
  const data = dtypes[dtype].create(tensors.length * size);
  tensors.forEach((tensor, place) => {
    data.set(tensor.data as never, place * size);
  });
  return { dtype, shape: [tensors.length, ...shape], data };
}

// The first element of a row is the same in all its batches, and several executors are compared with the same values.
const aloneOf = new WeakMap<Row, Map<string, readonly HostTensor[]>>();

function alone(row: Row, key: string, inputs: readonly HostTensor[]): readonly HostTensor[] {
  const known = aloneOf.get(row) ?? new Map<string, readonly HostTensor[]>();
  aloneOf.set(row, known);
  let results = known.get(key);
  if (results === undefined) {
    results = evaluateGraph(rowGraph(row), inputs);
    known.set(key, results);
  }
  return results;
}

interface BatchedCase extends Case {
  /** The inputs of each element. */
  readonly elements: readonly (readonly HostTensor[])[];
}

const batchedCases = new WeakMap<Row, Map<string, BatchedCase>>();

/** A row on a batch of some of its inputs; the same whenever it is asked for. */
export function batchedCase(row: Row, batched: readonly boolean[]): BatchedCase {
  const known = batchedCases.get(row) ?? new Map<string, BatchedCase>();
  batchedCases.set(row, known);
  const key = batched.join();
  const found = known.get(key);
  if (found !== undefined) return found;
  const varies = row.fails === undefined && row.fixed !== true;
  const elements = range(batchSize).map((element) =>
    row.inputs.map((source, place) => varied(source, batched[place] === true && varies ? element : 0)),
  );
  const first = elements[0] as HostTensor[];
  const inputs = first.map((input, place) =>
    batched[place] ? stack(elements.map((element) => element[place] as HostTensor)) : input,
  );
  const made = { graph: onBatch(rowGraph(row), batched, batchSize), inputs, elements };
  known.set(key, made);
  return made;
}

/** Runs a row on a batch of some of its inputs, and fails where an element differs from a run of the row on its own. */
export async function runBatched(row: Row, batched: readonly boolean[], evaluate: Evaluate): Promise<void> {
  const graph = rowGraph(row);
  const { graph: wide, inputs, elements } = batchedCase(row, batched);
  if (row.fails !== undefined) {
    await expect((async () => evaluate(wide, inputs))()).rejects.toThrow(row.fails);
    return;
  }
  const results = await evaluate(wide, inputs);
  const varies = row.fixed !== true;
  const own = elements.map((inputs, element) =>
    alone(row, varies && element > 0 ? `${batched} ${element}` : "", inputs),
  );
  results.forEach((result, place) => {
    const size = sizeOf(graph.outputs[place]?.shape ?? []);
    expect(result.shape).toEqual([batchSize, ...(graph.outputs[place]?.shape ?? [])]);
    own.forEach((expected, element) => {
      const part = result.data.subarray(element * size, (element + 1) * size);
      const tolerance = row.tolerance ?? (isFloat(result.dtype) ? 1e-5 : 0);
      const text = difference(part, (expected[place] as HostTensor).data, tolerance);
      if (text !== undefined) expect.fail(`${row.op}, ${row.title}: element ${element} of result ${place}: ${text}`);
    });
  });
}
