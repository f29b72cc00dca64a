import { afterAll, describe, expect, test } from "vitest";
import { type DType, dtypeNames, dtypes, isFloat, isInteger, traceGraph } from "../../src/ir/index.ts";
import type { HostTensor, Node } from "../../src/ir/node.ts";
import { call, evaluateGraph, scalarNames } from "../../src/ops/index.ts";
import { sameInXla } from "./differences.ts";
import { preparedPython, XlaOracle } from "./oracle.ts";

const oracle = new XlaOracle(preparedPython());
afterAll(() => oracle.close());

const inf = Infinity;
const halves = [0.5, -0.5, 1.5, -1.5, 2.5, 4.5, 5.5, -5.5, 8388607.5, -8388607.5];
const sizes = [1e-5, 1e-10, -1e-10, 1e-30, 0.1, -0.1, 0.99999, 10, 20, -20, 87, 88, -87, 100, -100, 1000, 12345.678];
const floats = [0, -0, 1, -1, 2, -2, 3, -3, 7, -7, ...halves, ...sizes, 1e10, -1e10, 1e30, 3e38, -3e38, inf, -inf, NaN];
const integers = [0, 1, -1, 2, -2, 7, -7, 31, 32, 33, 255, 256, 65536, 2147483647, -2147483648, 123456789, -987654321];
// Of 16-bit floats one unit in the last place: functions that differ in f32 may round to the neighbour.
const tolerance: { readonly [dtype: string]: number } = { f32: 2e-6, f64: 1e-13, f16: 2 ** -10, bf16: 2 ** -7 };

/** Near their roots these are compared by the size of what cancels there. */
const withRoots = /^(lgamma|digamma|polygamma)$/;

/** What docs/stablehlo.md says of it. */
const differs = (title: string, x: number, y: number): boolean => title === "polygamma" && (x > 10 || y < -20);

/** All pairs of telling values of a dtype. */
function pairs(dtype: DType): HostTensor[] {
  const list = isFloat(dtype) ? floats : [...new Set(dtypes[dtype].create(dtype === "bool" ? [0, 1] : integers))];
  const columns = [list.flatMap((x) => list.map(() => x)), list.flatMap(() => list)];
  return columns.map((data) => ({ dtype, shape: [data.length], data: dtypes[dtype].create(data) }));
}

/** The result of an op, or undefined where it is not defined for the dtype. */
function tried(op: string, inputs: readonly Node[]): readonly [string, Node] | undefined {
  try {
    return [op, call(op, inputs)];
  } catch {
    return undefined;
  }
}

describe("scalar functions at all pairs of special and plain values", () => {
  test.each(dtypeNames)(
    "%s",
    async (dtype) => {
      const inputs = pairs(dtype);
      const specs = inputs.map((type, index) => ({ name: `x${index}`, type }));
      const titles: string[] = [];
      const graph = traceGraph("scalars", specs, (x, y) => {
        const operands = [x, y] as Node[];
        const made = [
          ...scalarNames.unary.map((op) => tried(op, operands.slice(0, 1))),
          // By zero they are errors of the run.
          ...[...scalarNames.binary, ...scalarNames.compare]
            .filter((op) => !isInteger(dtype) || (op !== "div" && op !== "rem"))
            .map((op) => tried(op, operands)),
          ...dtypeNames.map((to): [string, Node] => [`cast to ${to}`, call("cast", [x as Node], { dtype: to })]),
        ].filter((entry) => entry !== undefined);
        titles.push(...made.map(([title]) => title));
        return made.map(([, node]) => node);
      });
      const expected = evaluateGraph(graph, inputs);
      const actual = await oracle.evaluate(graph, inputs);
      const [xs, ys] = inputs.map(({ data }) => data) as [HostTensor["data"], HostTensor["data"]];
      const wrong = expected.flatMap((want, output) =>
        Array.from(want.data).flatMap((value, index) => {
          const got = actual[output]?.data[index] as number;
          const title = titles[output] as string;
          const allowed = tolerance[want.dtype] ?? 0;
          const same =
            sameInXla(got, value, want.dtype, allowed) ||
            (withRoots.test(title) && Math.abs(got - value) <= allowed) ||
            differs(title, xs[index] as number, ys[index] as number);
          return same ? [] : [`${titles[output]} at ${xs[index]}, ${ys[index]}: XLA ${got}, here ${value}`];
        }),
      );
      expect(titles.length).toBeGreaterThan(dtypeNames.length);
      expect(wrong.slice(0, 20)).toEqual([]);
    },
    120_000,
  );
});
