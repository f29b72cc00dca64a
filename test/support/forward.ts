/** @module Tangents of graphs, compared with central differences along a direction. */
import { expect } from "vitest";
import { forwardGraph } from "../../src/autodiff/index.ts";
import { isFloat } from "../../src/ir/dtype.ts";
import { inputSpecs, traceGraph } from "../../src/ir/graph.ts";
import type { Graph, HostTensor } from "../../src/ir/node.ts";
import { evaluateGraph, zerosLike } from "../../src/ops/index.ts";
import type { Case } from "./grouped.ts";
import type { Evaluate } from "./row.ts";
import { difference, makeTensor } from "./tensors.ts";

/** The graph of values and tangents: it takes tangents of the inputs that move behind the inputs. */
export function tangentGraph(graph: Graph, moving: readonly boolean[]): Graph {
  const specs = inputSpecs(graph);
  return traceGraph(graph.name, [...specs, ...specs.filter((_spec, place) => moving[place])], (...nodes) => {
    const tangents = nodes.slice(specs.length);
    const duals = forwardGraph(
      graph,
      nodes
        .slice(0, specs.length)
        .map((node, place) => ({ node, tangent: moving[place] ? tangents.shift() : undefined })),
    );
    return [...duals.map(({ node }) => node), ...duals.map(({ node, tangent }) => tangent ?? zerosLike(node))];
  });
}

/** A random direction for an input. */
export const direction = ({ dtype, shape }: HostTensor, seed: number): HostTensor =>
  makeTensor({ dtype, shape, values: { low: -1, high: 1, seed } });

interface TangentCase extends Case {
  readonly tangents: readonly HostTensor[];
}

const tangentCases = new WeakMap<Graph, Map<string, TangentCase>>();

/** Values and tangents of a graph along random directions; the same whenever it is asked for. */
export function tangentCase(graph: Graph, inputs: readonly HostTensor[], moving: readonly boolean[]): TangentCase {
  const known = tangentCases.get(graph) ?? new Map<string, TangentCase>();
  tangentCases.set(graph, known);
  const key = moving.join();
  const found = known.get(key);
  if (found !== undefined) return found;
  const tangents = inputs.flatMap((input, place) => (moving[place] ? [direction(input, 500 + place)] : []));
  const made = { graph: tangentGraph(graph, moving), inputs: [...inputs, ...tangents], tangents };
  known.set(key, made);
  return made;
}

/** Compares values and tangents with the graph at `inputs` and at two points beside it. All floats are f64. */
export async function checkTangents(
  graph: Graph,
  inputs: readonly HostTensor[],
  moving: readonly boolean[],
  options: { readonly step?: number; readonly tolerance?: number; readonly evaluate?: Evaluate } = {},
): Promise<void> {
  const { step = 1e-5, tolerance = 1e-7, evaluate = evaluateGraph } = options;
  const { graph: wide, inputs: all, tangents } = tangentCase(graph, inputs, moving);
  const results = await evaluate(wide, all);
  const beside = (by: number): HostTensor[] => {
    const left = [...tangents];
    const moved = inputs.map((input, place) => {
      if (!moving[place]) return input;
      const { data } = left.shift() as HostTensor;
      return { ...input, data: input.data.map((value, at) => value + by * (data[at] as number)) };
    });
    return evaluateGraph(graph, moved);
  };
  const [here, above, below] = [beside(0), beside(step), beside(-step)];
  graph.outputs.forEach((output, place) => {
    const [value, tangent] = [results[place], results[place + graph.outputs.length]] as [HostTensor, HostTensor];
    expect(tangent).toMatchObject({ dtype: output.dtype, shape: output.shape });
    expect(difference(value.data, here[place]?.data ?? [], 1e-9), `result ${place}`).toBeUndefined();
    const quotients = [...tangent.data].map((_value, at) =>
      isFloat(output.dtype)
        ? ((above[place]?.data[at] as number) - (below[place]?.data[at] as number)) / (2 * step)
        : 0,
    );
    expect(difference(tangent.data, quotients, tolerance), `tangent of result ${place}`).toBeUndefined();
  });
}
