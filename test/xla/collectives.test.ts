import { afterAll, describe, expect, test } from "vitest";
import { referenceExecutor } from "../../src/executors/reference.ts";
import { dtypes, type Graph, type HostTensor, sizeOf, type TensorType } from "../../src/ir/index.ts";
import { evaluateGraph } from "../../src/ops/index.ts";
import { coordinatesOf, deviceCount, type Mesh, mesh, parseLayout, planGraph } from "../../src/plan/index.ts";
import { splitGraph } from "../../src/program/index.ts";
import { inputsFor, valuesFor } from "../lower/graphs.ts";
import { mlpStep } from "../plan/networks.ts";
import { chain } from "../program/graphs.ts";
import { difference } from "../support/tensors.ts";
import { preparedPython, XlaOracle } from "./oracle.ts";

const oracle = new XlaOracle(preparedPython());
afterAll(() => oracle.close());

/** One device's graph on all devices of a mesh, by the reference executor. */
async function reference(
  graph: Graph,
  grid: Mesh,
  inputs: readonly (readonly HostTensor[])[],
): Promise<HostTensor[][]> {
  const devices = inputs.map((_list, index) => ({ coordinates: coordinatesOf(grid, index) }));
  const executor = referenceExecutor({ axes: grid.axes, devices });
  const buffers = inputs.map((list) =>
    list.map(({ data }) => {
      const buffer = executor.allocate(data.byteLength);
      buffer.write(new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
      return buffer;
    }),
  );
  const run = executor.compile(splitGraph(graph, grid.axes)).run(buffers);
  await run.done;
  const read = async (type: TensorType, device: number, index: number): Promise<HostTensor> => {
    const raw = (await run.outputs[device]?.[index]?.read()) as Uint8Array;
    return { ...type, data: dtypes[type.dtype].view(raw.buffer, raw.byteOffset, sizeOf(type.shape)) };
  };
  const results = await Promise.all(
    devices.map((_device, device) =>
      Promise.all(graph.outputs.map((output, index) => read(output.types[0] as TensorType, device, index))),
    ),
  );
  executor.close();
  return results;
}

function expectClose(actual: readonly HostTensor[], expected: readonly HostTensor[]): void {
  expect(actual.length).toBe(expected.length);
  actual.forEach(({ data }, index) => {
    expect(difference(data, expected[index]?.data ?? [], 1e-11), `result ${index}`).toBeUndefined();
  });
}

describe("collectives in XLA, devices as replicas", () => {
  test("every collective, over two axes", async () => {
    const grid = mesh({ data: 2, model: 2 });
    const graph = chain(2);
    const inputs = Array.from({ length: deviceCount(grid) }, (_unused, device) =>
      graph.inputs.map((input, index) => valuesFor(input.types[0] as TensorType, 10 * device + index)),
    );
    const expected = await reference(graph, grid, inputs);
    const actual = await oracle.onMesh(graph, grid.axes, inputs);
    actual.forEach((outputs, device) => {
      expectClose(outputs, expected[device] as HostTensor[]);
    });
  });

  test("a data-parallel step on two devices gives what one device gives", async () => {
    const grid = mesh({ data: 2 });
    const graph = mlpStep();
    const split = parseLayout("S(0)");
    const plan = planGraph(graph, grid, { inputs: [split, split] });
    const inputs = inputsFor(graph);
    const half = ({ dtype, shape, data }: HostTensor, device: number): HostTensor => {
      const size = data.length / 2;
      const part = data.slice(device * size, (device + 1) * size);
      return { dtype, shape: [(shape[0] as number) / 2, ...shape.slice(1)], data: part };
    };
    const parts = [0, 1].map((device) => inputs.map((input, index) => (index < 2 ? half(input, device) : input)));
    const replicas = await oracle.onMesh(plan.local, grid.axes, parts);
    for (const outputs of replicas) expectClose(outputs, evaluateGraph(graph, inputs));
  });
});
