/** Random graphs: the native executor beside the reference, on every instruction set. */
import fc from "fast-check";
import { afterAll, describe, expect, test } from "vitest";
import type { Graph, HostTensor } from "../../src/ir/node.ts";
import { printGraph } from "../../src/ir/print.ts";
import { evaluateGraph } from "../../src/ops/index.ts";
import { choices, graphFrom, inputsFor } from "../support/random-graph.ts";
import { instructionSets, missing, nativeEvaluate } from "./evaluate.ts";

/** Roundings of up to thirty steps, each of which at most doubles what it is given. */
const tolerance = 1e-7;

const numbers = (tensors: readonly HostTensor[]): number[][] => tensors.map(({ data }) => Array.from(data, Number));

function close(values: readonly number[], expected: readonly number[]): boolean {
  return values.every((value, index) => {
    const wanted = expected[index] as number;
    return Object.is(value, wanted) || Math.abs(value - wanted) <= tolerance * (1 + Math.abs(wanted));
  });
}

describe.skipIf(missing !== undefined).each(instructionSets())("random graphs on %s", (isa) => {
  const plain = nativeEvaluate(isa, 1, false);
  const whole = nativeEvaluate(isa, 2, true);
  afterAll(() => {
    plain.close();
    whole.close();
  });

  /** What fails is shown as a graph: fast-check makes it small. */
  async function compare(graph: Graph, inputs: readonly HostTensor[]): Promise<void> {
    const expected = numbers(evaluateGraph(graph, inputs));
    for (const { evaluate } of [plain, whole]) {
      const values = numbers(await evaluate(graph, inputs));
      const good = values.every((list, index) => close(list, expected[index] as number[]));
      if (!good) expect(values, printGraph(graph)).toEqual(expected);
    }
  }

  test.each([
    { steps: "exact", rounding: false },
    { steps: "rounding", rounding: true },
  ])("$steps steps", async ({ rounding }) => {
    await fc.assert(
      fc.asyncProperty(choices, fc.nat(1000), async (list, seed) => {
        const graph = graphFrom(list, { rounding });
        await compare(graph, inputsFor(graph, seed));
      }),
      { numRuns: 60 },
    );
  });
});
