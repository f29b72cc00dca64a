import { describe, expect, test } from "vitest";
import { planProgram } from "../../src/compile/index.ts";
import { checkMachine, type Machine, machineFor, parseMachine, workSeconds } from "../../src/cost/index.ts";
import { jit, tensor } from "../../src/functions/index.ts";
import { type Node, traceGraph } from "../../src/ir/index.ts";
import * as ops from "../../src/ops/index.ts";
import { mesh, parseLayout, planGraph, trafficOf } from "../../src/plan/index.ts";
import { costOf } from "../../src/program/index.ts";

const good = { flops: 1e11, memory: 1e10, latency: 1e-6, bandwidth: 1e9 };

describe("machines as data", () => {
  test("what may be missing is what is assumed of any", () => {
    const { call, handover } = machineFor(1);
    expect(parseMachine(JSON.stringify(good), "a file")).toEqual({ ...good, call, handover });
  });

  const cases: [name: string, text: string, says: RegExp][] = [
    ["no JSON", "flops: 3", /^host\.json is not JSON: /],
    ["no record", "3", /^host\.json: a machine is a record of rates, got 3\n.*it has flops, memory/s],
    ["a list", "[]", /^host\.json: a machine is a record of rates, got \[\]/],
    ["nothing", "null", /^host\.json: a machine is a record of rates, got null/],
    ["a rate that is missing", JSON.stringify({ ...good, memory: undefined }), /^host\.json: 'memory' is missing/],
    ["a misspelt one", JSON.stringify({ ...good, flop: 1 }), /unknown option 'flop'.*did you mean 'flops'/s],
    ["a rate of nothing", JSON.stringify({ ...good, flops: 0 }), /host\.json: flops must be finite and above 0, got 0/],
    ["text", JSON.stringify({ ...good, bandwidth: "3 GB/s" }), /bandwidth must be a number, got "3 GB\/s"/],
    ["a time before the beginning", JSON.stringify({ ...good, latency: -1 }), /latency must be at least 0, got -1/],
    ["half a thread", JSON.stringify({ ...good, thread: { count: 2 } }), /host\.json: thread: 'flops' is missing/],
    ["links that are no record", JSON.stringify({ ...good, links: 3 }), /links must be a record of mesh axes/],
    [
      "half a link",
      JSON.stringify({ ...good, links: { data: { latency: 1 } } }),
      /links\.data: 'bandwidth' is missing/,
    ],
  ];
  test.each(cases)("%s is refused", (_name, text, says) => expect(() => parseMachine(text, "host.json")).toThrow(says));

  test("a compile refuses it by its own name", () => {
    expect(() => jit((x) => x, { machine: { ...good, flop: 1 } as unknown as Machine })).toThrow(
      /^jit: machine: unknown/,
    );
  });
});

test("devices of a larger mesh share what so many have", () => {
  const machine = checkMachine("test", { ...good, devices: 2 });
  const rates = (devices: number): number[] => {
    const { flops, memory } = machineFor(devices, machine);
    return [flops, memory];
  };
  expect(rates(1)).toEqual([1e11, 1e10]);
  expect(rates(2)).toEqual([1e11, 1e10]);
  expect(rates(8)).toEqual([0.25e11, 0.25e10]);
  // Once is enough.
  expect(machineFor(8, machineFor(8, machine))).toEqual(machineFor(8, machine));
});

test("small work is one thread's, large work is shared, and a thread for each device shares nothing", () => {
  const thread = { count: 4, flops: 5e10, memory: 4e9, share: 1e-5 };
  const machine = checkMachine("test", { ...good, devices: 1, thread });
  const seconds = (flops: number): number => workSeconds({ flops, bytes: 0 }, machine);
  expect(seconds(1e5)).toBe(1e5 / 5e10);
  expect(seconds(1e9)).toBe(1e9 / 1e11 + 1e-5);
  expect(machineFor(2, machine)).toMatchObject({ flops: 0.5e11, memory: 0.5e10, thread: { ...thread, count: 2 } });
  // Threads gain a factor of 2 together, so that four devices of one thread each are twice as fast.
  expect(machineFor(4, machine)).toMatchObject({ flops: 5e10, memory: 0.25e10 });
  expect(machineFor(4, machine).thread).toBeUndefined();
  expect(machineFor(8, machine).flops).toBe(2.5e10);
});

test("the planner goes by the machine that it is given", () => {
  const inputs = [
    { name: "rows", type: { dtype: "f32", shape: [8, 4] } },
    { name: "ids", type: { dtype: "i32", shape: [8] } },
  ] as const;
  const sums = traceGraph("sums", inputs, (rows, ids) => [ops.scatterAdd(rows as Node, ids as Node, 400, 0)]);
  const split = [parseLayout("S(0)"), parseLayout("S(0)")];
  const collectives = (machine: Partial<Machine>): string[] => {
    const options = {
      inputs: split,
      outputs: [parseLayout("R")],
      machine: checkMachine("test", { ...good, ...machine }),
    };
    return trafficOf(planGraph(sums, mesh({ data: 2 }), options)).map(({ name }) => name);
  };
  // The rows are few, but go as messages of their own, where the sums of all gradients go as one.
  const [slow, late] = [
    { latency: 0, bandwidth: 1e3 },
    { latency: 10, bandwidth: 1e12 },
  ];
  expect(collectives(slow)).toEqual(["allGather", "allGather"]);
  expect(collectives(late)).toEqual(["allReduce"]);
  expect(collectives({ ...slow, links: { data: late } })).toEqual(["allReduce"]);
  expect(collectives({ ...slow, links: { model: late } })).toEqual(["allGather", "allGather"]);
  // One that is nearly an axis of the mesh is a misspelt one.
  const links = { dats: late, model: late };
  expect(() => planProgram(sums, mesh({ data: 2 }), { machine: checkMachine("test", { ...good, links }) })).toThrow(
    /links has 'dats', the mesh data=2 has no such axis.*did you mean 'data'/s,
  );
});

test("a function is compiled for a machine", async () => {
  const twice = jit((x) => x.mul(2), { machine: checkMachine("test", good) });
  expect(Array.from(await twice(tensor([1, 2])).data())).toEqual([2, 4]);
  const graph = traceGraph("f", [{ name: "x", type: { dtype: "f32", shape: [1000] } }], (x) => [ops.exp(x as Node)]);
  const [slow, fast] = [1e9, 1e10].map((memory) => costOf(graph, checkMachine("test", { ...good, memory, call: 0 })));
  expect(slow?.seconds).toBeCloseTo(10 * (fast?.seconds as number), 12);
});
