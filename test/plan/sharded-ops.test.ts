import { describe, expect, test } from "vitest";
import { dtypes, type Graph, type HostTensor, inputSpecs, type Node, traceGraph } from "../../src/ir/index.ts";
import { call, evaluateGraph, sum } from "../../src/ops/index.ts";
import {
  collectivesOf,
  formatLayout,
  type Layout,
  type Mesh,
  mesh,
  type Placement,
  parsePlacement,
  planGraph,
  replicate,
  shard,
} from "../../src/plan/index.ts";
import { type Row, rowInputs, shardedRows } from "../ops/table.ts";
import { difference } from "../support/tensors.ts";
import { runPlan } from "./run.ts";

interface Sharding {
  readonly inputs: readonly Placement[];
  readonly outputs: readonly Placement[];
}

function parseSharding(text: string): Sharding {
  const [left, right] = text.split("->").map((side) =>
    side
      .split(",")
      .map((word) => word.trim())
      .filter((word) => word !== "")
      .map(parsePlacement),
  );
  return { inputs: left as Placement[], outputs: right as Placement[] };
}

// A partial input cannot be given; it is the sum of four quarters that are split over the devices.
const quarters = 4;

function wrapped(row: Row, { inputs }: Sharding): { graph: Graph; values: HostTensor[] } {
  const plain = rowInputs(row);
  const values = plain.map((value, index): HostTensor => {
    if (inputs[index]?.kind !== "partial") return value;
    const part = Array.from(value.data, (element) => element / quarters);
    return {
      dtype: value.dtype,
      shape: [quarters, ...value.shape],
      data: dtypes[value.dtype].create(Array.from({ length: quarters }, () => part).flat()),
    };
  });
  const specs = values.map(({ dtype, shape }, index) => ({ name: `x${index}`, type: { dtype, shape } }));
  const graph = traceGraph(row.op, specs, (...nodes) => {
    const operands = nodes.map((node, index): Node => (inputs[index]?.kind === "partial" ? sum(node, 0) : node));
    return row.build?.(...operands) ?? [call(row.op, operands, row.attrs)];
  });
  return { graph, values };
}

const inputPlacement = (placement: Placement): Placement => (placement.kind === "partial" ? shard(0) : placement);

async function check(
  row: Row,
  sharding: Sharding,
  axes: Mesh,
  on: (placement: Placement) => Layout,
): Promise<ReturnType<typeof planGraph>> {
  const { graph, values } = wrapped(row, sharding);
  const seeded = sharding.inputs.some((placement) => placement.kind !== "replicate");
  const plan = planGraph(graph, axes, {
    inputs: inputSpecs(graph).map((_spec, index) => on(inputPlacement(sharding.inputs[index] as Placement))),
    outputs: sharding.outputs.map((placement) => (seeded || placement.kind !== "shard" ? undefined : on(placement))),
  });
  const expected = evaluateGraph(graph, values);
  const actual = await runPlan(plan, values);
  actual.forEach((result, index) => {
    const tolerance = row.tolerance ?? (result.dtype === "f32" ? 1e-5 : result.dtype === "f64" ? 1e-11 : 0);
    const text = difference(result.data, (expected[index] as HostTensor).data, tolerance);
    if (text !== undefined) expect.fail(`${row.op}, ${row.title}: ${text}`);
  });
  return plan;
}

/** Whether every split dim divides by the number of devices. */
function fits(row: Row, { inputs }: Sharding, parts: number): boolean {
  return row.inputs.every(({ shape }, index) => {
    const placement = inputs[index] as Placement;
    return placement.kind !== "shard" || (shape[placement.dim] as number) % parts === 0;
  });
}

const cases = shardedRows
  .flatMap((row) =>
    row.shardings.map((text) => ({ name: `${row.op} (${row.title}): ${text}`, row, sharding: parseSharding(text) })),
  )
  .filter(({ row, sharding }) => fits(row, sharding, 2));

describe("each sharding of each op gives the unsharded answer", () => {
  test.each(cases)("$name", async ({ row, sharding }) => {
    const two = mesh({ a: 2 });
    const plan = await check(row, sharding, two, (placement) => [placement]);
    // The op itself needs no communication: only partial results are combined at the end.
    const partials = sharding.outputs.filter((placement) => placement.kind === "partial").length;
    expect(collectivesOf(plan).length).toBeLessThanOrEqual(partials);
    plan.outputs.forEach(({ layout }, index) => {
      const wanted = sharding.outputs[index] as Placement;
      expect(formatLayout(layout)).toBe(formatLayout([wanted.kind === "partial" ? replicate : wanted]));
    });
    const square = mesh({ a: 2, b: 2 });
    await check(row, sharding, square, (placement) => [placement, replicate]);
    await check(row, sharding, square, (placement) => [replicate, placement]);
    if (fits(row, sharding, 4)) await check(row, sharding, square, (placement) => [placement, placement]);
  });
});
