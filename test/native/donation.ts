/** @module Ops and their gradients with an output in the buffer of each input that fits, in turn: the same bits as without. */
import { afterAll, describe, expect, test } from "vitest";
import { runPasses } from "../../src/compile/index.ts";
import { nativeExecutor } from "../../src/executors/native/executor.ts";
import { inlineGraph, inputSpecs, traceGraph } from "../../src/ir/graph.ts";
import { dtypes, formatType, type Graph, type HostTensor, type Node, sizeOf } from "../../src/ir/index.ts";
import { mesh, planGraph } from "../../src/plan/index.ts";
import { splitGraph } from "../../src/program/index.ts";
import type { DeviceBuffer, Executor } from "../../src/runtime/executor.ts";
import { baseRows, rowGraph, rowInputs } from "../ops/table.ts";
import { rowGradient } from "../support/row.ts";
import { difference } from "../support/tensors.ts";
import { missing } from "./evaluate.ts";

/** A graph and what it is run on. */
export interface Case {
  readonly name: string;
  readonly graph: Graph;
  readonly inputs: readonly HostTensor[];
}

/** An output and the input whose buffer it takes over. */
type Pair = readonly [output: number, input: number];

// Each compilation is of so many cases: one by one they would take minutes.
const together = 40;

/** All rows of the table that give values, and their gradients. */
export const cases: readonly Case[] = baseRows
  .filter((row) => row.fails === undefined)
  .flatMap((row) => {
    const name = `${row.op}: ${row.title}`;
    const forward = { name, graph: rowGraph(row), inputs: rowInputs(row) };
    return row.gradient === false ? [forward] : [forward, { name: `gradient of ${name}`, ...rowGradient(row) }];
  });

const typeText = (node: Node): string => formatType(node);

/** The pairs of a graph whose types agree. */
const pairsOf = ({ inputs, outputs }: Graph): Pair[] =>
  outputs.flatMap((output, at) =>
    inputs.flatMap((input, from): Pair[] => (typeText(input) === typeText(output) ? [[at, from]] : [])),
  );

/** One graph of several, side by side. */
function joined(list: readonly Case[]): Graph {
  const specs = list.flatMap(({ graph }, at) =>
    inputSpecs(graph).map((spec) => ({ ...spec, name: `${spec.name}of${at}` })),
  );
  return traceGraph("joined", specs, (...nodes) => {
    let next = 0;
    return list.flatMap(({ graph }) => {
      next += graph.inputs.length;
      return inlineGraph(graph, nodes.slice(next - graph.inputs.length, next));
    });
  });
}

/** The tests of these cases. */
export function describeDonations(chosen: readonly Case[]): void {
  const groups = Array.from({ length: Math.ceil(chosen.length / together) }, (_unused, at) =>
    chosen.slice(at * together, (at + 1) * together),
  );
  describe.skipIf(missing !== undefined)("donated inputs", () => {
    const executor = lazily(() =>
      nativeExecutor({ axes: [], devices: [{ coordinates: [] }], threads: 1, world: undefined }),
    );
    afterAll(() => executor().close());
    test.each(groups.map((list) => [`${list[0]?.name} … ${list.at(-1)?.name}`, list] as const))("%s", (_name, list) =>
      checkDonations(executor(), list),
    );
  });
}

function lazily<Value>(make: () => Value): () => Value {
  let made: Value | undefined;
  return () => (made ??= make());
}

/** The bytes of each output; `donated` says of each output the input whose buffer it takes over. */
async function run(
  executor: Executor,
  graph: Graph,
  inputs: readonly HostTensor[],
  donated: readonly (number | undefined)[],
): Promise<Uint8Array[]> {
  const program = splitGraph(graph, [], { name: "donated", donated });
  const buffers = inputs.map(({ dtype, data }): DeviceBuffer => {
    const bytes = dtypes[dtype].bytesOf(data as never);
    const buffer = executor.allocate(bytes.byteLength);
    buffer.write(bytes);
    return buffer;
  });
  const ran = executor.compile(program).run([buffers]);
  await ran.done;
  const made = ran.outputs[0] as readonly DeviceBuffer[];
  return Promise.all(
    graph.outputs.map(async ({ dtype, shape }, index) => {
      const bytes = await (made[index] as DeviceBuffer).read();
      return bytes.slice(0, sizeOf(shape) * dtypes[dtype].bytes);
    }),
  );
}

async function checkDonations(executor: Executor, list: readonly Case[]): Promise<void> {
  const inputs = list.flatMap((one) => one.inputs);
  const local = planGraph(runPasses(joined(list)), mesh({})).classes[0]?.local as Graph;
  const expected = await run(executor, local, inputs, []);
  // Where each case's outputs and inputs begin, and its pairs.
  let [output, input] = [0, 0];
  const placed = list.map(({ name, graph }) => {
    const pairs = pairsOf(graph).map(([to, from]): Pair => [output + to, input + from]);
    output += graph.outputs.length;
    input += graph.inputs.length;
    return { name, pairs, outputs: [output - graph.outputs.length, output] as const };
  });
  for (let turn = 0; placed.some(({ pairs }) => turn < pairs.length); turn++) {
    const donated: (number | undefined)[] = local.outputs.map(() => undefined);
    for (const { pairs } of placed) {
      const pair = pairs[turn];
      if (pair !== undefined) donated[pair[0]] = pair[1];
    }
    const results = await run(executor, local, inputs, donated);
    for (const { name, pairs, outputs } of placed)
      for (let at = outputs[0]; at < outputs[1]; at++) {
        const text = difference(results[at] as never, expected[at] as never, 0);
        if (text !== undefined) expect.fail(`${name}, output and input ${pairs[turn]}: byte ${text}`);
      }
  }
}
