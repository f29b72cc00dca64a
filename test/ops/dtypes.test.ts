import { afterAll, describe, expect, it, vi } from "vitest";
import { type DType, dtypeNames, dtypes, isFloat, isInteger, isLong, roundTo } from "../../src/ir/dtype.ts";
import { traceGraph } from "../../src/ir/graph.ts";
import type { HostTensor } from "../../src/ir/node.ts";
import { call, cast, evaluateGraph } from "../../src/ops/index.ts";
import { longRows } from "../../src/ops/int64.ts";
import { binaryRows, unaryRows } from "../../src/ops/scalar.ts";
import { instructionSets, nativeEvaluate } from "../native/evaluate.ts";
import { edges, otherDTypes, rowsIn } from "../support/dtypes.ts";
import { type Evaluate, type Row, runRow } from "../support/row.ts";
import { partOf } from "../support/sample.ts";
import { difference } from "../support/tensors.ts";
import { baseRows } from "./table.ts";

// Each test is a whole table.
vi.setConfig({ testTimeout: 300_000 });

const machines = instructionSets().map((isa) => ({ name: isa, ...nativeEvaluate(isa, 1, true) }));
afterAll(() => {
  for (const machine of machines) machine.close();
});
const everywhere: { readonly name: string; readonly evaluate: Evaluate }[] = [
  { name: "reference", evaluate: evaluateGraph },
  ...machines,
];

const hostOf = (dtype: DType, values: readonly (number | bigint)[]): HostTensor => ({
  dtype,
  shape: [values.length],
  data: dtypes[dtype].create(values as number[]),
});

/** Whether numbers are expected for given values that are other ones, or infinite, in the row's dtype. */
const differs = (row: Row, constants: boolean): boolean =>
  row.inputs.some(
    ({ dtype, values }) =>
      !("seed" in values) &&
      values.some((value) => {
        const held = roundTo(dtype, value);
        return constants ? !Object.is(held, value) : Number.isFinite(held) !== Number.isFinite(value);
      }),
  );

/** What is wrong with each row that fails. */
async function wrongOf(rows: readonly Row[], evaluate: Evaluate): Promise<string[]> {
  const wrong: string[] = [];
  for (const row of rows) {
    try {
      await runRow(row, evaluate);
    } catch (error) {
      wrong.push(`${row.op}: ${row.title}: ${(error as Error).message}`);
    }
  }
  return wrong;
}

describe.each(Object.keys(otherDTypes) as DType[])("every op that is defined for %s", (dtype) => {
  const rows = rowsIn(baseRows, dtype);

  it("has rows", () => {
    expect(rows.length).toBeGreaterThan(40);
  });

  it.each(machines)("gives on $name what the reference gives", async ({ name, evaluate }) => {
    // Another part on each machine.
    const at = machines.findIndex((machine) => machine.name === name);
    expect(await wrongOf(partOf(rows, 6, at), evaluate)).toEqual([]);
  });
});

describe.each(["f16", "bf16"] as const)("the reference in %s", (dtype) => {
  it("gives the independent values, within its rounding", async () => {
    const values = new Map(baseRows.map((row) => [`${row.op}: ${row.title} (${dtype})`, row.expected]));
    const rows = rowsIn(baseRows, dtype).flatMap((row) => {
      const expected = values.get(`${row.op}: ${row.title}`);
      if (expected === undefined || differs(row, expected.length === 0)) return [];
      const held = (...inputs: HostTensor[]): readonly (readonly number[])[] =>
        expected(...inputs).map((list) => list.map((value) => roundTo(dtype, value)));
      return [{ ...row, expected: held }];
    });
    expect(await wrongOf(partOf(rows, 3, dtype === "f16" ? 0 : 1), evaluateGraph)).toEqual([]);
  });
});

describe("casts between all dtypes at the edges of each", () => {
  const pairs = dtypeNames.flatMap((from) => dtypeNames.map((to) => ({ from, to })));

  it.each(everywhere)("are what $name gives", async ({ evaluate }) => {
    for (const { from, to } of pairs) {
      const input = hostOf(from, edges(from));
      const graph = traceGraph("cast", [{ name: "x", type: input }], (x) => [cast(x as never, to)]);
      const [result] = await evaluate(graph, [input]);
      const wanted = Array.from(input.data as ArrayLike<number | bigint>, (value) => castOf(value, from, to));
      const text = difference((result as HostTensor).data, dtypes[to].create(wanted as number[]), 0);
      if (text !== undefined) expect.fail(`${from} to ${to}: ${text}; ${Array.from(input.data).join(", ")}`);
    }
  });
});

/** A cast by its definition, in exact integers. */
function castOf(value: number | bigint, from: DType, to: DType): number | bigint {
  if (to === "bool") return Number(value) === 0 ? 0 : 1;
  if (isFloat(to)) return typeof value === "number" ? value : rounded(value, to);
  if (!isFloat(from)) return wrapped(BigInt(value), to);
  if (Number.isNaN(value)) return 0;
  const [lowest, highest] = bounds(to);
  const whole = Math.abs(value as number) === Infinity ? 0n : BigInt(Math.trunc(value as number));
  const saturated =
    value === Infinity || whole > highest ? highest : value === -Infinity || whole < lowest ? lowest : whole;
  return wrapped(saturated, to);
}

function bounds(dtype: DType): readonly [bigint, bigint] {
  const bits = BigInt(dtypes[dtype].bytes * 8);
  return dtypes[dtype].kind === "int" ? [-(2n ** (bits - 1n)), 2n ** (bits - 1n) - 1n] : [0n, 2n ** bits - 1n];
}

/** An integer modulo the width of a dtype, as that holds it. */
function wrapped(value: bigint, dtype: DType): number | bigint {
  const [lowest, highest] = bounds(dtype);
  const size = highest - lowest + 1n;
  const result = ((((value - lowest) % size) + size) % size) + lowest;
  return isLong(dtype) ? result : Number(result);
}

const precisions: { readonly [dtype: string]: number } = { f64: 53, f32: 24, f16: 11, bf16: 8 };

/** A large integer to so many bits, halves to even. */
function rounded(value: bigint, dtype: DType): number {
  const magnitude = value < 0n ? -value : value;
  const shift = BigInt(Math.max(0, magnitude.toString(2).length - (precisions[dtype] as number)));
  const unit = 2n ** shift;
  const [quotient, rest] = [magnitude / unit, (magnitude % unit) * 2n];
  const up = rest > unit || (rest === unit && quotient % 2n === 1n);
  const result = Number(quotient + (up ? 1n : 0n)) * Number(unit);
  return Math.sign(Number(value)) * result || 0;
}

const bitsOf = (x: bigint, dtype: DType): string => {
  const width = dtypes[dtype].bytes * 8;
  return BigInt.asUintN(width, x).toString(2).padStart(width, "0");
};

/** Amounts of the width or more leave nothing of a value. */
const amountOf = (y: bigint, dtype: DType): bigint => (y < 0n || y >= BigInt(dtypes[dtype].bytes * 8) ? 64n : y);

/** A power modulo 2^64, by halves of the exponent. */
function powerOf(x: bigint, y: bigint): bigint {
  if (y < 2n) return x ** y;
  const half = powerOf(x, y / 2n);
  return BigInt.asIntN(64, half * half * x ** (y % 2n));
}

/** Functions of integers by their definition; results are taken modulo the width. */
const definitions: { readonly [op: string]: (x: bigint, y: bigint, dtype: DType) => bigint | undefined } = {
  neg: (x) => 0n - x,
  abs: (x) => (x < 0n ? 0n - x : x),
  sign: (x) => BigInt(x > 0n) - BigInt(x < 0n),
  not: (x) => -1n - x,
  add: (x, y) => x + y,
  sub: (x, y) => x - y,
  mul: (x, y) => x * y,
  div: (x, y) => (y === 0n ? undefined : x / y),
  rem: (x, y) => (y === 0n ? undefined : x - (x / y) * y),
  pow: (x, y) => (y < 0n ? (x === 1n || x === -1n ? x ** (y % 2n === 0n ? 2n : 1n) : 0n) : powerOf(x, y)),
  max: (x, y) => (x > y ? x : y),
  min: (x, y) => (x > y ? y : x),
  and: (x, y) => x & y,
  or: (x, y) => x | y,
  xor: (x, y) => x ^ y,
  shiftLeft: (x, y, dtype) => (y < 0n || y >= BigInt(dtypes[dtype].bytes * 8) ? 0n : x * 2n ** y),
  // Amounts beyond the width leave the sign.
  shiftRight: (x, y, dtype) => x >> amountOf(y, dtype),
  popcount: (x, _y, dtype) => BigInt(bitsOf(x, dtype).replaceAll("0", "").length),
  countLeadingZeros: (x, _y, dtype) => BigInt(/^0*/.exec(bitsOf(x, dtype))?.[0].length ?? 0),
  shiftRightLogical: (x, y, dtype) => BigInt(`0b0${bitsOf(x, dtype)}`) >> amountOf(y, dtype),
  shiftRightArithmetic: (x, y, dtype) => BigInt.asIntN(dtypes[dtype].bytes * 8, x) >> amountOf(y, dtype),
  eq: (x, y) => BigInt(x === y),
  ne: (x, y) => BigInt(x !== y),
  lt: (x, y) => BigInt(x < y),
  le: (x, y) => BigInt(x <= y),
  gt: (x, y) => BigInt(x > y),
  ge: (x, y) => BigInt(x >= y),
};
const compares = ["eq", "ne", "lt", "le", "gt", "ge"];

describe.each(dtypeNames.filter(isInteger))("functions of %s at its edges", (dtype) => {
  const values = Array.from(dtypes[dtype].create(edges(dtype) as number[]) as ArrayLike<number | bigint>);
  const signed = dtypes[dtype].kind === "int";

  it.each(everywhere)("are what $name gives", async ({ evaluate }) => {
    for (const [op, define] of Object.entries(definitions)) {
      if (!signed && (op === "abs" || op === "sign")) continue;
      const pairs = values.flatMap((x) => values.map((y) => [x, y, define(BigInt(x), BigInt(y), dtype)] as const));
      const whole = pairs.filter(([, , result]) => result !== undefined);
      const inputs = (op in unaryRows ? [0] : [0, 1]).map((place) =>
        hostOf(
          dtype,
          whole.map((pair) => pair[place] as number),
        ),
      );
      const specs = inputs.map((type, index) => ({ name: `x${index}`, type }));
      const graph = traceGraph(op, specs, (...nodes) => [call(op, nodes)]);
      const [result] = await evaluate(graph, inputs);
      const to = compares.includes(op) ? "u8" : dtype;
      const wanted = whole.map(([, , value]) => wrapped(value as bigint, to));
      const text = difference((result as HostTensor).data, wanted as number[], 0);
      if (text !== undefined) expect.fail(`${op}: ${text}; for ${whole[Number(/\d+/.exec(text)?.[0])]}`);
    }
  });
});

it("every function of integers is defined on 64-bit ones, and checked", () => {
  const integers = ["number", "signed", "integer", "bits"];
  const rows = Object.entries({ ...unaryRows, ...binaryRows }).filter(([, row]) => integers.includes(row.dtypes));
  expect(rows.map(([name]) => name).filter((name) => longRows[name] === undefined)).toEqual([]);
  expect(Object.keys(longRows).filter((name) => definitions[name] === undefined)).toEqual([]);
});
