import { describe, expect, test } from "vitest";
import { type DType, dtypes, type HostTensor, traceGraph } from "../../src/ir/index.ts";
import { add, evaluateGraph, gather, max, sum } from "../../src/ops/index.ts";
import { collectivesOf, mesh, planGraph, shard } from "../../src/plan/index.ts";
import { otherDTypes } from "../support/dtypes.ts";
import { executors } from "../support/executors.ts";
import { difference } from "../support/tensors.ts";
import { runPlan } from "./run.ts";

const devices = mesh({ data: 4 });

/** Values that sums of which need the width of the dtype. */
const values = (dtype: DType, count: number): HostTensor => {
  const large = dtype === "i64" || dtype === "u64" ? 2n ** 60n : 0n;
  const list = Array.from({ length: count }, (_unused, index) =>
    large === 0n ? (index % 13) + 1 : large + BigInt(index),
  );
  return { dtype, shape: [count / 2, 2], data: dtypes[dtype].create(list as number[]) };
};

describe.each(Object.keys(otherDTypes) as DType[])("values in parts of %s", (dtype) => {
  const x = values(dtype, 16);
  const indices: HostTensor = { dtype: "i32", shape: [8], data: Int32Array.of(7, 0, 3, 3, 1, 6, 2, 5) };

  test.each(executors)("are summed, compared and gathered by $name", async ({ make }) => {
    const specs = [
      { name: "x", type: { dtype, shape: x.shape } },
      { name: "i", type: { dtype: indices.dtype, shape: indices.shape } },
    ];
    const graph = traceGraph("parts", specs, (a, i) => [
      sum(a as never, 0),
      max(a as never, 0),
      add(gather(a as never, i as never), a as never),
    ]);
    const plan = planGraph(graph, devices, { inputs: [[shard(0)], [shard(0)]] });
    expect(collectivesOf(plan).length).toBeGreaterThan(1);
    const results = await runPlan(plan, [x, indices], make);
    evaluateGraph(graph, [x, indices]).forEach((wanted, index) => {
      expect(results[index]?.dtype).toBe(dtype);
      expect(
        difference((results[index] as HostTensor).data, wanted.data, otherDTypes[dtype] as number),
      ).toBeUndefined();
    });
  });
});
