/** @module Many small graphs run as one program, since making a program takes longer than running it. */
import { inlineGraph, traceGraph } from "../../src/ir/graph.ts";
import type { Graph, HostTensor } from "../../src/ir/node.ts";
import type { Evaluate } from "./row.ts";

/** A graph with the values that it is run on. */
export interface Case {
  readonly graph: Graph;
  readonly inputs: readonly HostTensor[];
}

export interface Grouped {
  /** The results of a case, by its graph, from the run of its group; of any other graph those of a run of its own. */
  readonly evaluate: Evaluate;
  /** Throws where a group could not be run, though each of its graphs could: these were run alone. */
  readonly check: () => void;
}

const groupSize = 40;

/** Runs cases forty at a time, when the first of a group is asked for. A case of a group that fails is run alone, to tell which it is. */
export function grouped(evaluate: Evaluate, cases: readonly Case[]): Grouped {
  const failures: unknown[] = [];
  const runs = new Map<Graph, () => Promise<readonly HostTensor[] | undefined>>();
  for (let start = 0; start < cases.length; start += groupSize) {
    const members = cases.slice(start, start + groupSize);
    let run: Promise<ReadonlyMap<Graph, readonly HostTensor[]>> | undefined;
    for (const { graph } of members) {
      runs.set(graph, async () => {
        run ??= runTogether(evaluate, members).catch((error: unknown) => {
          failures.push(error);
          return new Map();
        });
        return (await run).get(graph);
      });
    }
  }
  return {
    evaluate: async (graph, inputs) => (await runs.get(graph)?.()) ?? (await evaluate(graph, inputs)),
    check: () => {
      if (failures.length > 0) throw failures[0];
    },
  };
}

async function runTogether(
  evaluate: Evaluate,
  cases: readonly Case[],
): Promise<ReadonlyMap<Graph, readonly HostTensor[]>> {
  const specs = cases.flatMap(({ inputs }, place) =>
    inputs.map((type, index) => ({ name: `x${place}.${index}`, type: { dtype: type.dtype, shape: type.shape } })),
  );
  const joined = traceGraph("cases", specs, (...nodes) => {
    const left = [...nodes];
    return cases.flatMap(({ graph }) => inlineGraph(graph, left.splice(0, graph.inputs.length)));
  });
  const results = [
    ...(await evaluate(
      joined,
      cases.flatMap(({ inputs }) => inputs),
    )),
  ];
  return new Map(cases.map(({ graph }) => [graph, results.splice(0, graph.outputs.length)]));
}
