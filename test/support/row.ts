/** @module A row of the table of ops, and the checks that any executor can run it through. */
import { expect } from "vitest";
import { gradients } from "../../src/autodiff/index.ts";
import { type DType, isFloat } from "../../src/ir/dtype.ts";
import { traceGraph } from "../../src/ir/graph.ts";
import type { Attrs, Graph, HostTensor, Node } from "../../src/ir/node.ts";
import { range, type TensorType } from "../../src/ir/shape.ts";
import { topological } from "../../src/ir/walk.ts";
import { add, call, evaluateGraph, evaluateNode, mul, sum } from "../../src/ops/index.ts";
import { difference, makeTensor, type Source } from "./tensors.ts";

export interface Row {
  /** The op that the row is about. */
  readonly op: string;
  readonly title: string;
  readonly inputs: readonly Source[];
  readonly attrs?: Attrs;
  /** The graph, where it is more than the op on the inputs. */
  readonly build?: (...inputs: Node[]) => readonly Node[];
  /** Values of each result, by other means than the op's own reference. */
  readonly expected?: (...inputs: HostTensor[]) => readonly (readonly number[])[];
  /** Instead of values: the error of the run. */
  readonly fails?: RegExp;
  /** Whether to compare the gradient with central differences; `step` for ops that round. */
  readonly gradient: boolean | { readonly step: number; readonly tolerance: number };
  /** Relative to 1 + |value|; 0 asks for equal bits. */
  readonly tolerance?: number;
  /** The given values fit no other place: a batch of the row repeats them. */
  readonly fixed?: boolean;
  /** The numbers belong to f32. */
  readonly single?: boolean;
  /** All legal shardings over one mesh axis besides full replication: `"S(0), R -> S(0)"`. */
  readonly shardings?: readonly string[];
}

/** Runs a graph: the reference, a native executor, a planned program on virtual devices. */
export type Evaluate = (
  graph: Graph,
  inputs: readonly HostTensor[],
) => readonly HostTensor[] | Promise<readonly HostTensor[]>;

export const rowInputs = (row: Row): HostTensor[] => row.inputs.map(makeTensor);

const graphs = new WeakMap<Row, Graph>();

/** The row's graph. */
export function rowGraph(row: Row): Graph {
  const known = graphs.get(row);
  if (known !== undefined) return known;
  const graph = traceRow(row);
  graphs.set(row, graph);
  return graph;
}

function traceRow(row: Row): Graph {
  const specs = row.inputs.map((type, index) => ({
    name: `x${index}`,
    type: { dtype: type.dtype, shape: type.shape },
  }));
  return traceGraph(row.op, specs, (...inputs) => row.build?.(...inputs) ?? [call(row.op, inputs, row.attrs)]);
}

const defaultTolerance: { readonly [dtype: string]: number } = { f32: 1e-5, f64: 1e-11 };

// Several executors are compared with the same values, of which some take longer than a run.
const expectations = new WeakMap<Row, readonly (readonly number[])[]>();

function expectedOf(row: Row, graph: Graph, inputs: readonly HostTensor[]): readonly (readonly number[])[] {
  let values = expectations.get(row);
  if (values === undefined) {
    values = row.expected?.(...inputs) ?? evaluateGraph(graph, inputs).map((result) => [...result.data]);
    expectations.set(row, values);
  }
  return values;
}

/** Checks an executor's values of a row against the independent ones, or the reference where there are none. */
export async function runRow(row: Row, evaluate: Evaluate): Promise<void> {
  const inputs = rowInputs(row);
  const graph = rowGraph(row);
  if (row.fails !== undefined) {
    await expect((async () => evaluate(graph, inputs))()).rejects.toThrow(row.fails);
    return;
  }
  const results = await evaluate(graph, inputs);
  const expected = expectedOf(row, graph, inputs);
  expect(results.map(({ dtype, shape }) => ({ dtype, shape }))).toEqual(
    graph.outputs.map(({ dtype, shape }) => ({ dtype, shape })),
  );
  expect(expected.length).toBe(results.length);
  results.forEach((result, index) => {
    const tolerance = row.tolerance ?? defaultTolerance[result.dtype] ?? 0;
    const text = difference(result.data, expected[index] as readonly number[], tolerance);
    if (text !== undefined) expect.fail(`${row.op}, ${row.title}: result ${index} ${text}`);
  });
}

/** The row with its f32 inputs in f64; undefined when the dtype is said elsewhere too, or nothing would change. */
export function inDouble(row: Row): Row | undefined {
  if (row.single === true || row.attrs?.["dtype"] !== undefined || !row.inputs.some(({ dtype }) => dtype === "f32"))
    return undefined;
  const inputs = row.inputs.map((input) => (input.dtype === "f32" ? { ...input, dtype: "f64" as DType } : input));
  const { shardings: _once, ...rest } = row;
  return { ...rest, title: `${row.title} (f64)`, inputs };
}

/** Traces a float scalar of the inputs. */
export type ScalarFunction = (...inputs: Node[]) => Node;

/** A function of the inputs that weighs all elements of the results by `seed`ed numbers. */
export function weighed(
  build: (...inputs: Node[]) => readonly Node[],
  inputs: readonly HostTensor[],
  seed: number,
): { body: ScalarFunction; inputs: HostTensor[] } {
  const types = inputs.map(({ dtype, shape }, index) => ({ name: `x${index}`, type: { dtype, shape } }));
  const results = traceGraph("shape", types, build).outputs;
  const weights = results.map(({ shape }, index) =>
    makeTensor({ dtype: "f64", shape, values: { low: 0.5, high: 1.5, seed: seed + index } }),
  );
  const body: ScalarFunction = (...nodes) =>
    build(...nodes.slice(0, inputs.length))
      .map((result, index) => sum(mul(result, nodes[inputs.length + index] as Node)))
      .reduce((a, b) => add(a, b));
  return { body, inputs: [...inputs, ...weights] };
}

/** The gradient of a row's weighed results by its float inputs, in f64 where the row can be so, and what it is run on. */
export function rowGradient(row: Row): { graph: Graph; inputs: HostTensor[] } {
  const wide = inDouble(row) ?? row;
  const own = rowInputs(wide);
  const { body, inputs } = weighed((...nodes) => wide.build?.(...nodes) ?? [call(wide.op, nodes, wide.attrs)], own, 11);
  const specs = inputs.map(({ dtype, shape }, index) => ({ name: `x${index}`, type: { dtype, shape } as TensorType }));
  const graph = traceGraph(`${row.op} gradient`, specs, (...nodes) =>
    gradients(
      body(...nodes),
      nodes.filter(({ dtype }, index) => index < own.length && isFloat(dtype)),
    ),
  );
  return { graph, inputs };
}

/** A graph of one scalar result as a function of one input: what does not depend on it is computed once. */
function functionOfInput(graph: Graph, inputs: readonly HostTensor[], index: number): (input: HostTensor) => number {
  const values = new Map<Node, readonly HostTensor[]>(
    graph.inputs.map((node, place) => [node, [inputs[place] as HostTensor]]),
  );
  const evaluate = (node: Node): void => {
    const given = node.inputs.flatMap((input) => values.get(input) as readonly HostTensor[]);
    values.set(node, evaluateNode(node, given));
  };
  const changed = graph.inputs[index] as Node;
  const after = new Set([changed]);
  const again: Node[] = [];
  for (const node of topological(graph.outputs)) {
    if (values.has(node)) continue;
    if (node.inputs.some((input) => after.has(input))) {
      after.add(node);
      again.push(node);
    } else evaluate(node);
  }
  return (input) => {
    values.set(changed, [input]);
    again.forEach(evaluate);
    return values.get(graph.outputs[0] as Node)?.[0]?.data[0] as number;
  };
}

const mostQuotients = 40;

/**
 * Compares the gradient of a scalar function with central differences, by the first `count` inputs that are floats:
 * element by element, or, with a seed `along`, along one random direction of each input.
 */
export function checkGradient(
  body: ScalarFunction,
  inputs: readonly HostTensor[],
  count: number,
  options: { step?: number; tolerance?: number; along?: number } = {},
): void {
  const { step = 1e-5, tolerance = 1e-7, along } = options;
  const specs = inputs.map(({ dtype, shape }, index) => ({ name: `x${index}`, type: { dtype, shape } as TensorType }));
  const by = inputs.flatMap(({ dtype }, index) => (index < count && isFloat(dtype) ? [index] : []));
  const value = traceGraph("value", specs, (...nodes) => [body(...nodes)]);
  const gradient = traceGraph("gradient", specs, (...nodes) =>
    gradients(
      body(...nodes),
      by.map((index) => nodes[index] as Node),
    ),
  );
  const results = evaluateGraph(gradient, inputs);
  by.forEach((index, order) => {
    const input = inputs[index] as HostTensor;
    const derived = results[order] as HostTensor;
    expect(derived.shape).toEqual(input.shape);
    const valueOf = functionOfInput(value, inputs, index);
    const quotient = (direction: (element: number) => number): number => {
      const shifted = (by: number): number =>
        valueOf({ ...input, data: input.data.map((value, at) => value + by * direction(at)) as HostTensor["data"] });
      return (shifted(step) - shifted(-step)) / (2 * step);
    };
    if (along !== undefined) {
      const direction = makeTensor({ ...derived, values: { low: -1, high: 1, seed: along + index } }).data;
      const slope = [...derived.data].reduce((sum, value, at) => sum + value * (direction[at] as number), 0);
      const text = difference([slope], [quotient((at) => direction[at] as number)], tolerance);
      if (text !== undefined) expect.fail(`gradient by input ${index}, along a direction: ${text}`);
      return;
    }
    // Of large inputs every so many elements: each costs two evaluations.
    const every = Math.ceil(input.data.length / mostQuotients);
    const elements = range(Math.ceil(input.data.length / every || 0)).map((sample) => sample * every);
    const actual = elements.map((element) => derived.data[element] as number);
    const text = difference(
      actual,
      elements.map((element) => quotient((at) => (at === element ? 1 : 0))),
      tolerance,
    );
    if (text !== undefined) expect.fail(`gradient by input ${index}, every ${every}th element: ${text}`);
  });
}

/** Sum of all gradients of `body`, weighed: its gradient tests second derivatives. */
export function gradientSum(
  body: ScalarFunction,
  inputs: readonly HostTensor[],
  count: number,
  seed: number,
): { body: ScalarFunction; inputs: HostTensor[] } {
  const by = inputs.flatMap(({ dtype }, index) => (index < count && isFloat(dtype) ? [index] : []));
  return weighed(
    (...nodes) =>
      gradients(
        body(...nodes),
        by.map((index) => nodes[index] as Node),
      ),
    inputs,
    seed,
  );
}
