/** @module Compares tensors and numbers by value, and describes where they differ. */
import { isTensor, type NestedNumbers, type Tensor, tensor } from "../functions/index.ts";
import type { DType } from "../ir/dtype.ts";
import { formatShape, type Shape, stridesOf } from "../ir/shape.ts";
import { inspectMethod } from "../tensor/inspect.ts";
import { HeddleError } from "../util/errors.ts";
import { checkNumber, checkOptions } from "../util/options.ts";
import { shown } from "../util/show.ts";
import { isRecord } from "../util/tree.ts";

/**
 * Values that can be compared: tensors, numbers in any nesting, typed arrays (flat, as `data()` gives them, for any shape), and records
 * and arrays of these, such as parameters.
 */
export type Comparable = Tensor | NestedNumbers | readonly Comparable[] | { readonly [name: string]: Comparable };

/** Tolerances: `|actual - expected| <= atol + rtol * |expected|`, as in NumPy's `assert_allclose`. */
export interface CloseOptions {
  /** Relative tolerance. Default by dtype, the looser of two, as in PyTorch's `assert_close`: f64 1e-7, f32 1.3e-6, f16 1e-3, bf16 1.6e-2, others 0. */
  readonly rtol?: number;
  /** Absolute tolerance. Default f64 1e-7, other floats 1e-5, others 0. */
  readonly atol?: number;
  /** Whether NaN is equal to NaN; default true, as in NumPy's `assert_allclose`. */
  readonly equalNan?: boolean;
}

const tolerances: { readonly [dtype in DType]?: Required<Pick<CloseOptions, "rtol" | "atol">> } = {
  f64: { rtol: 1e-7, atol: 1e-7 },
  f32: { rtol: 1.3e-6, atol: 1e-5 },
  f16: { rtol: 1e-3, atol: 1e-5 },
  bf16: { rtol: 1.6e-2, atol: 1e-5 },
};

/** Limits of a message: values of a tree, and elements of a value. */
const [maxValues, maxElements] = [3, 4];

/** @throws HeddleError `option`. */
export function checkCloseOptions(what: string, options: CloseOptions): void {
  checkOptions(what, options, ["rtol", "atol", "equalNan"]);
  for (const name of ["rtol", "atol"] as const)
    if (options[name] !== undefined) checkNumber(what, name, options[name], 0);
}

/**
 * Describes where two trees of values differ; undefined if they do not.
 *
 * @throws HeddleError `argument` for a value that is neither a tensor nor numbers; the errors of `dataSync`.
 */
export function differences(actual: unknown, expected: unknown, options: CloseOptions): string | undefined {
  const texts = differing(actual, expected, "", options);
  if (texts.length === 0) return undefined;
  const more = texts.length - maxValues;
  return [...texts.slice(0, maxValues), ...(more > 0 ? [`and ${more} more values differ`] : [])].join("\n");
}

/** A text for each value of a tree that differs. */
function differing(actual: unknown, expected: unknown, path: string, options: CloseOptions): string[] {
  const head = path === "" ? "" : `"${path}": `;
  if (isValue(actual) && isValue(expected)) {
    const text = difference(actual, expected, options);
    return text === undefined ? [] : [head + text];
  }
  const [parts, expectedParts] = [partsOf(actual, path), partsOf(expected, path)];
  if (parts === undefined || expectedParts === undefined || Array.isArray(actual) !== Array.isArray(expected))
    return [`${head}${shown(actual)}, expected ${shown(expected)}`];
  const names = [...new Set([...parts.keys(), ...expectedParts.keys()])];
  return names.flatMap((name) => {
    if (!parts.has(name)) return [`${head}has no "${name}"`];
    if (!expectedParts.has(name)) return [`${head}has "${name}", which is not expected`];
    return differing(parts.get(name), expectedParts.get(name), path === "" ? name : `${path}.${name}`, options);
  });
}

const isNumber = (value: unknown): boolean => ["number", "bigint", "boolean"].includes(typeof value);

/** Whether a value is compared as a whole, not part by part. */
function isValue(value: unknown): value is Tensor | NestedNumbers {
  if (Array.isArray(value)) return value.length === 0 || (!isTensor(value[0]) && isValue(value[0]));
  return isTensor(value) || isNumber(value) || ArrayBuffer.isView(value);
}

/** The parts of an array or record by name; undefined for a value. */
function partsOf(value: unknown, path: string): Map<string, unknown> | undefined {
  if (Array.isArray(value)) return new Map(value.map((part, index) => [String(index), part]));
  if (isRecord(value)) return new Map(Object.entries(value));
  if (isValue(value)) return undefined;
  throw new HeddleError("argument", `${path === "" ? "what is compared" : `"${path}"`} is ${shown(value)}`, {
    hint: "tensors, numbers, and arrays and records of them can be compared",
  });
}

const asTensor = (value: Tensor | NestedNumbers): Tensor => {
  if (isTensor(value)) return value;
  return tensor(value, ArrayBuffer.isView(value) || hasBigints(value) ? {} : { dtype: "f64" });
};

/** Gives a typed array the shape of the other tensor if the sizes are equal. */
const shapedAs = (value: unknown, converted: Tensor, other: Tensor): Tensor =>
  ArrayBuffer.isView(value) && converted.size === other.size ? converted.reshape(other.shape) : converted;

const hasBigints = (value: unknown): boolean =>
  Array.isArray(value) ? hasBigints(value[0]) : typeof value === "bigint";

const sides = ["actual  ", "expected"];

function printed(x: Tensor): string {
  // Values that are still being computed would not be shown.
  x.dataSync();
  return x[inspectMethod]();
}

/** Where two values differ. */
function difference(
  actual: Tensor | NestedNumbers,
  expected: Tensor | NestedNumbers,
  options: CloseOptions,
): string | undefined {
  const [actualTensor, expectedTensor] = [asTensor(actual), asTensor(expected)];
  const [left, right] = [
    shapedAs(actual, actualTensor, expectedTensor),
    shapedAs(expected, expectedTensor, actualTensor),
  ];
  const both = (): string =>
    [left, right]
      .map(printed)
      .map((text, side) => `\n  ${sides[side]} ${text}`)
      .join("");
  if (isTensor(actual) && isTensor(expected) && actual.dtype !== expected.dtype)
    return `dtype ${actual.dtype}, expected ${expected.dtype}${both()}`;
  if (`${left.shape}` !== `${right.shape}` || left.shape.length !== right.shape.length)
    return `shape ${formatShape(left.shape)}, expected ${formatShape(right.shape)}${both()}`;
  const dtypes = [actual, expected].flatMap((value, index) =>
    isTensor(value) || ArrayBuffer.isView(value) ? [([left, right][index] as Tensor).dtype] : [],
  );
  const rules = (dtypes.length === 0 ? ["f64" as const] : dtypes).map(
    (dtype) => tolerances[dtype] ?? { rtol: 0, atol: 0 },
  );
  const rtol = options.rtol ?? Math.max(...rules.map((rule) => rule.rtol));
  const atol = options.atol ?? Math.max(...rules.map((rule) => rule.atol));
  const apart = elementsApart(left, right, { rtol, atol, equalNan: options.equalNan ?? true });
  if (apart.length === 0) return undefined;
  // NaN and infinity are worse than any number.
  const worst = apart.reduce((worstSoFar, element) =>
    worstSoFar.gap >= element.gap || Number.isNaN(worstSoFar.gap) ? worstSoFar : element,
  );
  const others = apart.filter((element) => element !== worst).slice(0, maxElements - 1);
  const line = ({ index, actual: is, expected: should, gap }: Apart): string =>
    `${formatIndex(index, left.shape)}: ${is}, expected ${should} (by ${gap})`;
  return (
    `${apart.length} of ${left.size} elements differ by more than ${atol} + ${rtol} * |expected|\n  worst at ${line(worst)}` +
    `${others.map((element) => `\n  ${line(element)}`).join("")}${both()}`
  );
}

/** Two elements that differ. */
interface Apart {
  readonly index: number;
  readonly actual: number | bigint;
  readonly expected: number | bigint;
  readonly gap: number;
}

function elementsApart(left: Tensor, right: Tensor, { rtol, atol, equalNan }: Required<CloseOptions>): Apart[] {
  const [actualValues, expectedValues]: ArrayLike<number | bigint>[] = [left.dataSync(), right.dataSync()];
  const apart: Apart[] = [];
  for (let index = 0; index < left.size; index++) {
    const [actual, expected] = [actualValues?.[index] as number | bigint, expectedValues?.[index] as number | bigint];
    if (actual === expected) continue;
    const [a, e] = [Number(actual), Number(expected)];
    if (equalNan && Number.isNaN(a) && Number.isNaN(e)) continue;
    const areBigints = typeof actual === "bigint" && typeof expected === "bigint";
    const gap = Math.abs(areBigints ? Number(actual - expected) : a - e);
    // Relative to infinity, every number would be close.
    if (Number.isFinite(e) && gap <= atol + rtol * Math.abs(e)) continue;
    apart.push({ index, actual, expected, gap });
  }
  return apart;
}

function formatIndex(flat: number, shape: Shape): string {
  const strides = stridesOf(shape);
  return `[${shape.map((size, dim) => Math.floor(flat / (strides[dim] as number)) % size).join(", ")}]`;
}
