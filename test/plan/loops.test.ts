import { describe, expect, it } from "vitest";
import { runPasses } from "../../src/compile/index.ts";
import { type Graph, type HostTensor, inputSpecs } from "../../src/ir/index.ts";
import { evaluateGraph } from "../../src/ops/index.ts";
import {
  collectivesOf,
  formatLayout,
  type Layout,
  mesh,
  planGraph,
  shardedOn,
  trafficOf,
  verifyPlan,
} from "../../src/plan/index.ts";
import { costOf, parseProgram, printProgram, splitGraph, verifyProgram } from "../../src/program/index.ts";
import { difference, makeTensor } from "../support/tensors.ts";
import { powerIteration, recurrentStates, recurrentStep } from "./loops.ts";
import { runPlan } from "./run.ts";

const samples = (graph: Graph): HostTensor[] =>
  inputSpecs(graph).map(({ type }, index) =>
    makeTensor({
      ...type,
      values: { low: type.dtype === "u32" ? 0 : -1, high: type.dtype === "u32" ? 2 ** 31 : 1, seed: 50 + index },
    }),
  );

const two = mesh({ data: 2 });
const on = (dims: readonly (number | undefined)[]): (Layout | undefined)[] =>
  dims.map((dim) => (dim === undefined ? undefined : shardedOn(two, { data: dim })));
const passed = (graph: Graph): Graph => runPasses(graph);

const cases = [
  { name: "a recurrent network", graph: recurrentStep(), inputs: on([1, 0]), collectives: 1 },
  { name: "its states", graph: recurrentStates(), inputs: on([1]), collectives: 0 },
  { name: "power iteration by rows", graph: powerIteration(), inputs: on([0]), collectives: undefined },
];

describe("loops on two devices", () => {
  it.each(cases)("$name: the answer of one device", async ({ graph, inputs, collectives }) => {
    const plan = planGraph(passed(graph), two, { inputs });
    verifyPlan(plan);
    const values = samples(graph);
    const expected = evaluateGraph(graph, values);
    const actual = await runPlan(plan, values);
    actual.forEach((output, index) => {
      expect(difference(output.data, (expected[index] as HostTensor).data, 1e-11)).toBeUndefined();
    });
    if (collectives !== undefined) expect(collectivesOf(plan)).toHaveLength(collectives);
  });

  it("communicate once for the sums of all iterations, not in each", () => {
    const plan = planGraph(passed(recurrentStep()), two, { inputs: on([1, 0]) });
    const { collectives } = costOf(splitGraph(plan.local, two.axes));
    expect(collectives.map(({ name, times }) => ({ name, times }))).toEqual([{ name: "allReduce", times: 1 }]);
  });

  it("may communicate in every iteration", () => {
    const plan = planGraph(passed(recurrentStates(4, 5)), two, {
      inputs: [undefined, undefined, undefined, ...on([0])],
    });
    const program = splitGraph(plan.local, two.axes);
    expect(costOf(program).collectives.reduce((total, { times }) => total + times, 0)).toBe(5);
    expect(trafficOf(plan).reduce((total, { sent }) => total + sent, 0)).toBe(costOf(program).sent);
  });

  it("leave results cut as the body gives them", () => {
    const plan = planGraph(passed(recurrentStates()), two, { inputs: on([1]) });
    expect(formatLayout(plan.outputs[0]?.layout as Layout)).toBe("S(1)");
  });
});

describe("programs with loops", () => {
  it.each(cases)("$name: printed, read back and verified", ({ graph, inputs }) => {
    for (const [axes, layouts] of [
      [two, inputs],
      [mesh({}), []],
    ] as const) {
      const plan = planGraph(passed(graph), axes, { inputs: layouts });
      const program = splitGraph(plan.local, axes.axes);
      verifyProgram(program);
      const text = printProgram(program);
      expect(printProgram(parseProgram(text))).toBe(text);
    }
  });

  it("have this text", async () => {
    const plan = planGraph(passed(recurrentStep()), two, { inputs: on([1, 0]) });
    await expect(printProgram(splitGraph(plan.local, two.axes))).toMatchFileSnapshot("golden/recurrent.program.txt");
  });
});

describe("dropout in a loop", () => {
  it("differs by iteration", () => {
    const graph = recurrentStates(16, 3);
    const [x, key, w] = samples(graph) as [HostTensor, HostTensor, HostTensor];
    // Equal inputs and no mixing: an element differs from its first value only where its state was kept.
    const identity = Float64Array.from({ length: 16 }, (_zero, place) => Number(place % 5 === 0));
    const ones = { ...x, data: new Float64Array(x.data.length).fill(1) };
    const [states] = evaluateGraph(graph, [ones, key, w, { dtype: "f64", shape: [4, 4], data: identity }]);
    const size = 16 * 4;
    const dropped = (at: number): boolean[] =>
      Array.from({ length: size }, (_zero, place) => states?.data[at * size + place] === states?.data[place]);
    expect(states?.shape).toEqual([3, 16, 4]);
    expect(dropped(1).filter(Boolean).length).toBeGreaterThan(16);
    expect(dropped(1).filter(Boolean).length).toBeLessThan(48);
    expect(dropped(2)).not.toEqual(dropped(1));
  });
});
