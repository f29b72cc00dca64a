import { describe, expect, test } from "vitest";
import { type Graph, type HostTensor, topological } from "../../src/ir/index.ts";
import type { Node } from "../../src/ir/node.ts";
import { evaluateGraph } from "../../src/ops/index.ts";
import { formBuckets } from "../../src/plan/buckets.ts";
import {
  cheapestPath,
  collectivesOf,
  formatLayout,
  type Layout,
  localType,
  machineFor,
  mesh,
  parseLayout,
  parseMesh,
  parsePlan,
  planGraph,
  printPlan,
  shardedOn,
  trafficOf,
  verifyPlan,
} from "../../src/plan/index.ts";
import { mlpForward, mlpStep, samples } from "./networks.ts";
import { runPlan } from "./run.ts";

async function expectSameAnswer(graph: Graph, plan: ReturnType<typeof planGraph>): Promise<void> {
  verifyPlan(plan);
  const inputs = samples(graph);
  const expected = evaluateGraph(graph, inputs);
  const actual = await runPlan(plan, inputs);
  actual.forEach((output, index) => {
    const wanted = expected[index] as HostTensor;
    output.data.forEach((value, i) => {
      expect(Math.abs(value - (wanted.data[i] as number))).toBeLessThanOrEqual(
        1e-12 * Math.max(1, Math.abs(wanted.data[i] as number)),
      );
    });
  });
}

const kinds = (plan: ReturnType<typeof planGraph>): string[] =>
  collectivesOf(plan).map((node) => `${node.op.name} ${node.attrs["axis"]}`);

describe("plans give the answer of one device", () => {
  const cases: readonly {
    what: string;
    sizes: Record<string, number>;
    layouts: readonly (Record<string, number> | undefined)[];
    collectives: readonly string[];
  }[] = [
    { what: "nothing split", sizes: { data: 2 }, layouts: [], collectives: [] },
    {
      what: "data parallel",
      sizes: { data: 2 },
      layouts: [{ data: 0 }, { data: 0 }],
      collectives: ["allReduce data", "allReduce data"],
    },
    {
      what: "data parallel on four",
      sizes: { data: 4 },
      layouts: [{ data: 0 }, { data: 0 }],
      collectives: ["allReduce data", "allReduce data"],
    },
    {
      what: "batch over both axes",
      sizes: { pod: 2, data: 2 },
      layouts: [
        { pod: 0, data: 0 },
        { pod: 0, data: 0 },
      ],
      collectives: ["allReduce pod", "allReduce pod", "allReduce data", "allReduce data"],
    },
  ];
  test.each(cases)("$what", async ({ sizes, layouts, collectives }) => {
    const graph = mlpStep();
    const axes = mesh(sizes);
    const plan = planGraph(graph, axes, {
      inputs: layouts.map((dims) => (dims === undefined ? undefined : shardedOn(axes, dims))),
    });
    expect(kinds(plan).sort()).toEqual([...collectives].sort());
    await expectSameAnswer(graph, plan);
  });

  test("columns then rows of the weights: one all-reduce", async () => {
    const graph = mlpForward();
    const axes = mesh({ model: 2 });
    const plan = planGraph(graph, axes, {
      inputs: [undefined, shardedOn(axes, { model: 1 }), shardedOn(axes, { model: 0 })],
    });
    expect(kinds(plan)).toEqual(["allReduce model"]);
    await expectSameAnswer(graph, plan);
  });

  test("data times model: one all-reduce over model forwards", async () => {
    const graph = mlpForward();
    const axes = mesh({ data: 2, model: 2 });
    const plan = planGraph(graph, axes, {
      inputs: [shardedOn(axes, { data: 0 }), shardedOn(axes, { model: 1 }), shardedOn(axes, { model: 0 })],
    });
    expect(kinds(plan)).toEqual(["allReduce model"]);
    expect(formatLayout(plan.outputs[0]?.layout as Layout)).toBe("S(0) R");
    await expectSameAnswer(graph, plan);
  });

  test("split parameters: reduce-scatter instead of all-reduce where the parameter is split", async () => {
    const graph = mlpStep(64);
    const axes = mesh({ data: 2 });
    const split = shardedOn(axes, { data: 0 });
    const plan = planGraph(graph, axes, {
      inputs: [split, split, undefined, split, split, split, split],
      outputs: [undefined, undefined, split, split, split, split],
    });
    expect(kinds(plan).filter((kind) => kind.startsWith("reduceScatter")).length).toBeGreaterThan(0);
    await expectSameAnswer(graph, plan);
  });
});

describe("fully sharded: kept in parts, gathered for each use", () => {
  const axes = mesh({ data: 2 });
  const split = shardedOn(axes, { data: 0 });
  const whole = shardedOn(axes, {});
  const params = [split, split, split, split];
  const plan = planGraph(mlpStep(64), axes, {
    inputs: [split, split, undefined, ...params],
    uses: [undefined, undefined, undefined, whole, whole, whole, whole],
    outputs: [undefined, undefined, ...params],
  });

  test("gives the answer of one device", () => expectSameAnswer(mlpStep(64), plan));

  test("each parameter is gathered where it is used, each gradient reduce-scattered", () => {
    const sent = new Map<string, number>();
    for (const { name, sent: bytes } of trafficOf(plan)) sent.set(name, (sent.get(name) ?? 0) + bytes);
    const [w1, b1, w2, b2] = [8 * 6, 8, 4 * 8, 4].map((size) => size * 8) as [number, number, number, number];
    // Half of each value comes from the other device. The gradient by x is not asked for, so w1 is used once.
    expect(sent.get("allGather")).toBe((w1 + b1 + 2 * w2 + b2) / 2);
    expect(sent.get("reduceScatter")).toBe((w1 + b1 + w2 + b2) / 2);
    // Loss and number correct.
    expect(sent.get("allReduce")).toBe(8 + 4);
  });

  test("no gathered value is an input of two ops", () => {
    const users = new Map<unknown, number>();
    const isGathered = ({ op, inputs: [from] }: Node): boolean =>
      op.name === "allGather" || (op.name === "element" && from?.op.name === "allGather");
    for (const node of topological(plan.local.outputs))
      for (const input of node.inputs)
        if (isGathered(input) && !isGathered(node)) users.set(input, (users.get(input) ?? 0) + 1);
    expect([...users.values()]).toEqual([1, 1, 1, 1, 1]);
  });
});

describe("traffic", () => {
  test("data parallel sends each gradient once around the ring", () => {
    const graph = mlpStep();
    const axes = mesh({ data: 4 });
    const plan = planGraph(graph, axes, { inputs: [shardedOn(axes, { data: 0 }), shardedOn(axes, { data: 0 })] });
    const parameters = 8 * 6 + 8 + 4 * 8 + 4;
    const [first, second] = trafficOf(plan).sort((left, right) => right.payload - left.payload);
    expect(first?.payload).toBe((parameters + 1) * 8);
    expect(first?.sent).toBe(((parameters + 1) * 8 * 2 * 3) / 4);
    expect(second?.payload).toBe(4);
  });

  test("buckets close at their size, in order of readiness", () => {
    const graph = mlpStep();
    const axes = mesh({ data: 2 });
    const plan = planGraph(graph, axes, {
      inputs: [shardedOn(axes, { data: 0 }), shardedOn(axes, { data: 0 })],
      finish: (local) => formBuckets(local, { first: 1, others: 300 }),
    });
    const floats = trafficOf(plan).filter((traffic) => traffic.payload !== 4);
    expect(floats.length).toBeGreaterThan(2);
    expect(floats.reduce((total, traffic) => total + traffic.payload, 0)).toBe((8 * 6 + 8 + 4 * 8 + 4 + 1) * 8);
  });
});

describe("redistribution", () => {
  const axes = mesh({ a: 2, b: 2 });
  const type = { dtype: "f64", shape: [8, 8] } as const;
  const cases: readonly [string, string, readonly string[]][] = [
    ["R R", "R R", []],
    ["S(0) R", "R R", ["S(0)→R on a"]],
    ["R R", "S(0) S(1)", ["R→S(0) on a", "R→S(1) on b"]],
    ["P(sum) R", "R R", ["P(sum)→R on a"]],
    ["P(sum) R", "S(1) R", ["P(sum)→S(1) on a"]],
    ["S(0) R", "S(1) R", ["S(0)→S(1) on a"]],
    // The inner axis joins first, then the outer one.
    ["S(0) S(0)", "R R", ["S(0)→R on b", "S(0)→R on a"]],
    ["R R", "S(0) S(0)", ["R→S(0) on a", "R→S(0) on b"]],
  ];
  test.each(cases)("%s to %s", (from, to, expected) => {
    const path = cheapestPath(type, parseLayout(from), parseLayout(to), axes, machineFor(1));
    const words = path?.steps.map(
      (step) => `${formatLayout([step.from])}→${formatLayout([step.to])} on ${axes.axes[step.axis]?.name}`,
    );
    expect(words).toEqual(expected);
  });

  test("nothing leads to a partial value", () => {
    expect(cheapestPath(type, parseLayout("R R"), parseLayout("P(sum) R"), axes, machineFor(1))).toBeUndefined();
  });
});

describe("text and errors", () => {
  test("a plan is read back as it was printed", () => {
    const graph = mlpStep();
    const axes = mesh({ data: 2 });
    const plan = planGraph(graph, axes, { inputs: [shardedOn(axes, { data: 0 }), shardedOn(axes, { data: 0 })] });
    expect(printPlan(parsePlan(printPlan(plan)))).toBe(printPlan(plan));
  });

  test("golden plan of a data-parallel step", async () => {
    const graph = mlpStep();
    const axes = mesh({ data: 2 });
    const plan = planGraph(graph, axes, { inputs: [shardedOn(axes, { data: 0 }), shardedOn(axes, { data: 0 })] });
    await expect(printPlan(plan)).toMatchFileSnapshot("golden/mlp-data-parallel.txt");
  });

  test("the same inputs give the same plan", () => {
    const axes = mesh({ data: 2, model: 2 });
    const make = (): string => printPlan(planGraph(mlpForward(), axes, { inputs: [shardedOn(axes, { data: 0 })] }));
    expect(make()).toBe(make());
  });

  test.each([
    ["data=", "'data=' is not an axis of a mesh"],
    ["data=0", "mesh axis 'data' cannot have 0 devices"],
    ["data=2,data=2", "mesh axis 'data' is given twice"],
  ])("mesh %s is refused", (text, message) => {
    expect(() => parseMesh(text)).toThrow(message);
  });

  test("a dim that does not divide is refused with sizes and axis", () => {
    expect(() => localType({ dtype: "f32", shape: [7, 2] }, parseLayout("S(0)"), mesh({ data: 2 }))).toThrow(
      "dim 0 has 7 elements, axis 'data' has 2 devices",
    );
  });
});
