import { describe, expect, test } from "vitest";
import { costOfTasks, type Machine, type Task } from "../../src/cost/index.ts";
import { type Graph, type Node, type TensorType, traceGraph } from "../../src/ir/index.ts";
import { type CollectiveStep, costOf, type Program, splitGraph } from "../../src/program/index.ts";
import { mlpStep } from "../plan/networks.ts";
import * as ops from "../support/nodes.ts";

/** Round numbers: a second for 100 operations, 10 bytes of memory, 1 byte of a link; no call costs anything. */
const machine: Machine = { flops: 100, memory: 10, latency: 0.5, bandwidth: 1, call: 0, handover: 0.25 };

const task = (fields: Partial<Task>): Task => ({
  flops: 0,
  bytes: 0,
  calls: 0,
  times: 1,
  after: [],
  makes: 0,
  stays: false,
  ...fields,
});
const send = (bytes: number, after: number[], axis = "data"): Task =>
  task({ after, sends: { name: "allReduce", axis, label: "", values: 1, payload: bytes, rounds: 2, bytes } });

describe("costOfTasks", () => {
  const cases: { name: string; tasks: Task[]; on?: Partial<Machine>; cost: object }[] = [
    {
      name: "arithmetic or memory, whichever is longer",
      tasks: [task({ flops: 200, bytes: 10 })],
      cost: { seconds: 2 },
    },
    {
      name: "a call",
      tasks: [task({ flops: 200, calls: 3 })],
      on: { call: 1 },
      cost: { seconds: 5, computeSeconds: 5 },
    },
    {
      name: "one after another on a device; the longest chain is what waits",
      tasks: [task({ flops: 100 }), task({ flops: 200 }), task({ flops: 300, after: [0] })],
      cost: { seconds: 6, depth: 4 },
    },
    {
      name: "what is sent is beside what does not wait for it",
      tasks: [task({ flops: 100 }), send(4, [0]), task({ flops: 300 }), task({ flops: 100, after: [1, 2] })],
      cost: { seconds: 1 + 5 + 1, depth: 7, computeSeconds: 5, communicationSeconds: 5, sent: 4 },
    },
    {
      name: "where handing it over costs more than it takes it is not",
      tasks: [task({ flops: 100 }), send(4, [0]), task({ flops: 300 }), task({ flops: 100, after: [1, 2] })],
      on: { handover: 3 },
      cost: { seconds: 1 + 5 + 3 + 1 },
    },
    {
      name: "an axis has the link that is named for it",
      tasks: [send(4, [], "model"), send(4, [], "data")],
      on: { links: { model: { latency: 1, bandwidth: 4 } } },
      cost: {
        collectives: [
          { axis: "model", times: 1, sent: 4, seconds: 3 },
          { axis: "data", times: 1, sent: 4, seconds: 5 },
        ],
      },
    },
    {
      name: "again and again",
      tasks: [task({ times: 3, flops: 100, bytes: 5 }), { ...send(1, [0]), times: 3 }],
      cost: { seconds: 3 * 3, flops: 300, bytes: 15, sent: 3 },
    },
    {
      name: "memory: arguments all the time, values until their last reader",
      tasks: [
        task({ makes: 8, stays: true }),
        task({ makes: 100, after: [0] }),
        task({ makes: 10, after: [1] }),
        task({ makes: 50, after: [2], stays: true }),
      ],
      cost: { peak: 8 + 100 + 10 },
    },
  ];
  test.each(cases)("$name", ({ tasks, on, cost }) =>
    expect(costOfTasks(tasks, { ...machine, ...on })).toMatchObject(cost),
  );
});

const f32 = (...shape: number[]): TensorType => ({ dtype: "f32", shape });
const graph = (types: TensorType[], fn: (...nodes: Node[]) => Node[]): Graph =>
  traceGraph(
    "f",
    types.map((type, index) => ({ name: `x${index}`, type })),
    (...nodes) => fn(...(nodes as Node[])),
  );

describe("costOf", () => {
  const [batch, heads, length, features] = [2, 3, 64, 16];
  const q4 = f32(batch, heads, 1, length, features);
  const kv = f32(batch, heads, length, features);
  const scores = batch * heads * length * length;
  const n = 32;
  const cases: { name: string; of: Graph; flops: [least: number, most: number]; bytes: number }[] = [
    {
      name: "a product",
      of: graph([f32(8, 6), f32(6, 4)], (x, y) => [ops.matmul(x as Node, y as Node)]),
      flops: [2 * 8 * 6 * 4, 2 * 8 * 6 * 4],
      bytes: 4 * (48 + 24 + 32),
    },
    {
      name: "pointwise ops fuse: what is between them is neither written nor read",
      of: graph([f32(10), f32(10)], (x, y) => [ops.mul(ops.add(ops.mul(x as Node, y as Node), x as Node), 2)]),
      flops: [30, 30],
      bytes: 4 * 10 * (2 + 1 + 1),
    },
    {
      name: "a gather: the rows that are moved, not the table",
      of: graph([f32(1000, 4), { dtype: "i32", shape: [3] }], (x, at) => [ops.gather(x as Node, at as Node, 0)]),
      flops: [0, 0],
      bytes: 4 * (12 + 3 + 12),
    },
    {
      name: "attention: two products of the scores, which never reach memory",
      of: graph([q4, kv, kv], (q, k, v) => [
        ops.attention(q as Node, k as Node, v as Node, { causal: false, scale: 1 }),
      ]),
      flops: [4 * scores * features, 4 * scores * features + 20 * scores],
      bytes: 4 * batch * heads * length * (4 * features + 1),
    },
    {
      name: "a sort: comparisons, by the length of the rows",
      of: graph([f32(4, 1024)], (x) => [ops.sort(x as Node)]),
      flops: [4096 * 10, 4096 * 10 * 10],
      bytes: 4 * 4096 * 2,
    },
    {
      name: "a Cholesky factor",
      of: graph([f32(n, n)], (a) => [ops.cholesky(a as Node)]),
      flops: [n ** 3 / 3, n ** 3 / 3 + n * n],
      bytes: 4 * 2 * n * n,
    },
  ];
  test.each(cases)("$name", ({ of, flops: [least, most], bytes }) => {
    const cost = costOf(of);
    expect(cost.flops).toBeGreaterThanOrEqual(least);
    expect(cost.flops).toBeLessThanOrEqual(most);
    expect(cost.bytes).toBe(bytes);
  });

  test("a loop is its body, so many times, one after the other", () => {
    const types = [f32(8, 8), f32(8, 8)];
    const body = graph([{ dtype: "i32", shape: [] }, ...types], (_count, y, x) => [ops.matmul(y as Node, x as Node)]);
    const attrs = { body, length: 5, carries: 1, slices: 0, reverse: false };
    const loop = graph(types, (y, x) => [
      ops.exp(ops.resultsOf(ops.call("scan", [y as Node, x as Node], attrs))[0] ?? (y as Node)),
    ]);
    const [one, five] = [costOf(graph(types, (y, x) => [ops.exp(ops.matmul(y as Node, x as Node))])), costOf(loop)];
    const alone = costOf(graph([f32(8, 8)], (x) => [ops.exp(x as Node)]));
    expect(five.flops).toBe(5 * (one.flops - alone.flops) + alone.flops);
    for (const name of ["seconds", "depth"] as const)
      expect(five[name]).toBeCloseTo(5 * (one[name] - alone[name]) + alone[name], 12);
  });

  test("a graph and the program of it cost the same", () => {
    const step = mlpStep();
    const [whole, program] = [costOf(step), costOf(splitGraph(step, []))];
    for (const name of ["flops", "bytes", "sent", "seconds", "depth"] as const)
      expect(program[name], name).toBeCloseTo(whole[name], 15);
  });

  test("devices that send each other messages: a stage computes while the next one does", () => {
    const type = f32(1000);
    const region = graph([type], (x) => [ops.exp(x as Node)]);
    const common = { name: "f", axes: [{ name: "stage", size: 2 }], values: [type, type] } as const;
    const message = (op: "send" | "receive", place: Partial<CollectiveStep>): CollectiveStep => {
      const attrs = { axis: "stage", parts: 2, peer: op === "send" ? 1 : 0, label: "x" };
      return { kind: "collective", op, axis: "stage", label: "x", attrs, arguments: [], results: [], ...place };
    };
    const run: Program["steps"][number] = { kind: "run", region, arguments: [0], results: [1] };
    const stages = (count: number): Program[] => {
      const times = Array.from({ length: count }, () => 0);
      const first = times.flatMap(() => [run, message("send", { arguments: [1] })]);
      const second = times.flatMap(() => [message("receive", { results: [0] }), run]);
      return [
        { ...common, inputs: [{ name: "x", type }], outputs: [], donated: [], steps: first },
        { ...common, inputs: [], outputs: [{ name: "y", type, value: 1 }], donated: [undefined], steps: second },
      ];
    };
    // A second for the function (8,000 bytes), half a second and 0.25 for a message of 4,000 bytes.
    const slow = { ...machine, flops: 1e9, memory: 8000, latency: 0.5, bandwidth: 16_000, handover: 1 };
    expect(costOf(stages(1), slow)).toMatchObject({ seconds: 2.75, flops: 2 * 1000 * 10, sent: 4000 });
    // The messages keep their sender from computing; the second stage waits for the last one.
    expect(costOf(stages(3), slow).seconds).toBeCloseTo(3 * 1.75 + 1, 12);
  });
});
