/** @module Cases of ops that test/fixtures/op_cases.py wrote down, and how they are run. */
import * as heddle from "heddle";
import { isTensor, type Tensor, tensor, tensorFunction } from "heddle";
import { dtypes, isFloat, isLong } from "../../src/ir/dtype.ts";
import type { Attrs, DType, Shape } from "../../src/ir/index.ts";
import { call } from "../../src/ops/index.ts";
import { fixture } from "../fixtures/fixture.ts";

/** Dtype, shape, and the place of the numbers in the file's list of them. */
type Listed = readonly [dtype: DType, shape: Shape, list: number];

interface Written {
  readonly op: readonly string[];
  readonly call: string;
  readonly title?: string;
  readonly in: readonly Listed[];
  readonly args: readonly unknown[];
  readonly out: readonly Listed[];
  readonly grads?: readonly number[];
  readonly exact?: true;
  readonly differs?: readonly Differing[];
}

/** Where Heddle gives another number on purpose: what, which one, at which indices, the number, and why. */
type Differing = readonly [
  kind: "out" | "grads",
  place: number,
  indices: readonly number[],
  value: number,
  why: string,
];

/** A number, or the text of an integer beyond 2^53. */
export type Written64 = number | string;

export interface Described {
  readonly dtype: DType;
  readonly shape: Shape;
  readonly data: readonly Written64[];
}

export interface OpCase {
  readonly title: string;
  readonly op: readonly string[];
  readonly call: string;
  readonly inputs: readonly Described[];
  readonly args: readonly unknown[];
  readonly outputs: readonly Described[];
  /** By each f64 input, of the sum of the results in f64, weighed by {@link weightsOf}. */
  readonly gradients: readonly (readonly number[])[] | undefined;
  readonly exact: boolean;
}

/** The cases of a fixture, `"ops-scalar"`. */
export function opCases(name: string): OpCase[] {
  const [{ lists }, ...rows] = fixture<object>(name) as [{ lists: Written64[][] }, ...Written[]];
  const described = ([dtype, shape, list]: Listed): Described => ({ dtype, shape, data: lists[list] as Written64[] });
  return rows.map((row, index) => {
    const types = row.in.map(([dtype, shape]) => `${dtype}[${shape}]`).join(", ");
    const args = row.args.length === 0 ? "" : ` by ${JSON.stringify(row.args)}`;
    return {
      title: `${index} ${row.call} of ${types}${args}${row.title === undefined ? "" : `: ${row.title}`}`,
      op: row.op,
      call: row.call,
      inputs: row.in.map(described),
      args: row.args,
      outputs: row.out.map((listed, place) => {
        const { dtype, shape, data } = described(listed);
        return { dtype, shape, data: ours(row, "out", place, data) };
      }),
      gradients: row.grads?.map((list, place) => ours(row, "grads", place, lists[list] as number[]) as number[]),
      exact: row.exact === true,
    };
  });
}

/** PyTorch's numbers, but Heddle's where those differ on purpose. */
function ours(row: Written, kind: "out" | "grads", place: number, data: readonly Written64[]): readonly Written64[] {
  const own = (row.differs ?? []).filter(([what, which]) => what === kind && which === place);
  return data.map((given, index) => own.find(([, , indices]) => indices.includes(index))?.[3] ?? given);
}

export function tensorOf({ dtype, shape, data }: Described): Tensor {
  const values = isLong(dtype) ? data.map((value) => BigInt(value)) : (data as number[]);
  // Of a typed array, so that a value that the dtype has not is an error, and none is rounded unseen.
  return tensor(dtypes[dtype].create(values as number[]), { dtype, shape });
}

/** The cotangent of result k: element i is cos(i + k). */
export const weightsOf = ({ shape, data }: Described, k: number): Tensor =>
  tensor(
    Float64Array.from(data, (_value, i) => Math.cos(i + k)),
    { shape },
  );

type AnyFunction = (...args: unknown[]) => unknown;
export type Composed = { readonly [name: string]: AnyFunction };

function functionOf(name: string, composed: Composed): AnyFunction {
  const [kind, rest] = name.split(":") as [string, string | undefined];
  if (kind === "composed") return composed[rest as string] as AnyFunction;
  return name.split(".").reduce<unknown>((part, key) => (part as Composed)[key], heddle) as AnyFunction;
}

/** Inputs in the places of the arguments that say which. */
const placed = (value: unknown, inputs: readonly Tensor[]): unknown => {
  if (Array.isArray(value)) return value.map((one) => placed(one, inputs));
  if (typeof value !== "object" || value === null) return value;
  if ("input" in value) return inputs[value.input as number];
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, placed(one, inputs)]));
};

const tensorsIn = (value: unknown): Tensor[] => {
  if (isTensor(value)) return [value];
  return typeof value === "object" && value !== null ? Object.values(value).flatMap(tensorsIn) : [];
};

/** What a case calls, as a function of its inputs alone that gives its results. */
export function callOf(one: OpCase, composed: Composed): (...inputs: Tensor[]) => Tensor[] {
  const { args } = one;
  if (one.call.startsWith("op:")) {
    const name = one.call.slice(3);
    const direct = tensorFunction(name, (...nodes) => call(name, nodes, (args[0] ?? {}) as Attrs));
    return (...inputs) => [direct(...inputs)];
  }
  const fn = functionOf(one.call, composed);
  const says = JSON.stringify(args).includes('"input"');
  return (...inputs) => tensorsIn(fn(...(says ? [] : inputs), ...(placed(args, inputs) as unknown[])));
}

/** How far a result may be off: PyTorch's f64 functions are good to a few units of the last place, as ours. */
const tolerances: { readonly [dtype: string]: number } = { f64: 1e-9, f32: 1e-6, f16: 2 ** -10, bf16: 2 ** -7 };

/** What differs between the numbers found and those written down, in words. */
export function differences(
  what: string,
  found: ArrayLike<number | bigint>,
  { dtype, data }: Described,
  options: { readonly exact: boolean; readonly zeros: boolean },
): string[] {
  if (found.length !== data.length) return [`${what}: ${found.length} numbers, not ${data.length}`];
  const tolerance = isFloat(dtype) && !options.exact ? (tolerances[dtype] as number) : 0;
  return data.flatMap((expected, index) => {
    const [left, right] = [found[index] as number | bigint, typeof expected === "string" ? BigInt(expected) : expected];
    const same = typeof left === "bigint" ? left === BigInt(right) : isNear(left, right as number);
    return same ? [] : [`${what} at ${index}: ${text(left)} is not ${text(right)}`];
  });

  function isNear(left: number, right: number): boolean {
    if (left === 0 && right === 0) return !options.zeros || Object.is(left, right);
    if (!Number.isFinite(right)) return Object.is(left, right);
    // Differences of numbers of the size of 1 lose no more than those: zero may come out as 1e-17.
    const limit = tolerance * Math.max(Math.abs(right), tolerance === 0 ? 0 : 1e-3);
    return Object.is(left, right) || left === right || Math.abs(left - right) <= limit;
  }
}

const text = (value: number | bigint): string => (Object.is(value, -0) ? "-0" : String(value));
