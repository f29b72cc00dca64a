/** @module Factorisations in StableHLO: its own ops, and LAPACK by the custom calls that jaxlib registers on the CPU. */
import type { Shape } from "../ir/shape.ts";
import { type HloBlock, type HloDType, type HloType, type HloValue, hloCombine, hloIntegers } from "./block.ts";
import { hloExtreme, hloIndices } from "./shared.ts";

const letterOf = (dtype: HloDType): string => (dtype === "f64" ? "d" : "s");
const code = (letter: string): string => `${letter.charCodeAt(0)} : ui8`;

/** Layouts of matrices by columns, as LAPACK has them. */
const layouts = (types: readonly HloType[]): string => {
  const order: { readonly [rank: number]: string } = { 1: "0", 2: "[1, 0]", 3: "[1, 2, 0]" };
  return `[${types.map(({ shape }) => `dense<${order[shape.length]}> : tensor<${shape.length}xindex>`).join(", ")}]`;
};

export function lapack(
  hlo: HloBlock,
  routine: string,
  inputs: readonly HloValue[],
  outputs: readonly HloType[],
  options: { readonly [name: string]: string } = {},
): HloValue[] {
  const entries = Object.entries(options).map(([name, letter]) => `${name} = ${code(letter)}`);
  return hlo.op("custom_call", inputs, outputs, {
    api_version: "1 : i32",
    backend_config: '""',
    call_target_name: `"lapack_${letterOf(inputs[0]?.type.dtype as HloDType)}${routine}_ffi"`,
    has_side_effect: "false",
    "mhlo.backend_config": `{${entries.join(", ")}}`,
    operand_layouts: layouts(inputs.map(({ type }) => type)),
    result_layouts: layouts(outputs),
  });
}

export const reshaped = (hlo: HloBlock, x: HloValue, shape: Shape): HloValue =>
  hlo.one("reshape", [x], { shape, dtype: x.type.dtype });

/** The first columns of each matrix of a batch. */
export function firstColumns(hlo: HloBlock, x: HloValue, columns: number, rows = x.type.shape[1] as number): HloValue {
  const [batch] = x.type.shape as [number];
  return hlo.one(
    "slice",
    [x],
    { shape: [batch, rows, columns], dtype: x.type.dtype },
    {
      start_indices: hloIntegers([0, 0, 0]),
      limit_indices: hloIntegers([batch, rows, columns]),
      strides: hloIntegers([1, 1, 1]),
    },
  );
}

/** The matrices with zeros above (or below) the diagonal. */
export function triangle(hlo: HloBlock, x: HloValue, lower: boolean): HloValue {
  const { shape } = x.type;
  const index = (dim: number): HloValue =>
    hlo.one("iota", [], { shape, dtype: "i32" }, { iota_dimension: `${dim} : i64` });
  const inside = hlo.compare(lower ? "GE" : "LE", index(shape.length - 2), index(shape.length - 1));
  return hlo.select(inside, x, hlo.like(x, 0));
}

/** The product of each row of a matrix. */
export function products(hlo: HloBlock, x: HloValue): HloValue {
  const { shape, dtype } = x.type;
  const unit = hlo.constant({ shape: [], dtype }, 1);
  const type = { shape: shape.slice(0, 1), dtype };
  return hlo.one("reduce", [x, unit], type, { dimensions: hloIntegers([1]) }, [hloCombine("multiply", dtype)]);
}

/** -1 where a value is negative, else 1. */
export const signs = (hlo: HloBlock, x: HloValue): HloValue =>
  hlo.select(hlo.compare("LT", x, hlo.like(x, 0)), hlo.like(x, -1), hlo.like(x, 1));

/** The diagonals of the first rows and columns of matrices. */
export function diagonals(hlo: HloBlock, x: HloValue): HloValue {
  const { shape, dtype } = x.type;
  const [batch, rows] = shape as [number, number];
  const index = (dim: number): HloValue =>
    hlo.one("iota", [], { shape, dtype: "i32" }, { iota_dimension: `${dim} : i64` });
  const diagonal = hlo.select(hlo.compare("EQ", index(1), index(2)), x, hlo.like(x, 0));
  const zero = hlo.constant({ shape: [], dtype }, 0);
  const type = { shape: [batch, rows], dtype };
  return hlo.one("reduce", [diagonal, zero], type, { dimensions: hloIntegers([2]) }, [hloCombine("add", dtype)]);
}

/** The sign of the first component of each column that is no less than 0.3 of the largest in size. */
export function columnSigns(hlo: HloBlock, x: HloValue): HloValue {
  const { shape, dtype } = x.type;
  const [batch, , columns] = shape as [number, number, number];
  const size = hlo.same("abs", x);
  const type = { shape: [batch, columns], dtype };
  const zero = hlo.constant({ shape: [], dtype }, 0);
  const over = { dimensions: hloIntegers([1]) };
  const largest = hlo.one("reduce", [size, zero], type, over, [hloCombine("maximum", dtype)]);
  const limit = hlo.broadcast(hlo.same("multiply", largest, hlo.like(largest, 0.3)), shape, [0, 2]);
  const counts = hlo.compare("GE", size, limit);
  // The first index that counts: the reduction takes the value at the least index.
  const { indices: positions, none: last } = hloIndices(hlo, shape, 1);
  const candidate = hlo.select(counts, positions, hlo.like(positions, shape[1] as number));
  const start = hlo.constant({ shape: [], dtype: "i32" }, 2147483647);
  const indices = { shape: [batch, columns], dtype: "i32" as const };
  const [, , value] = hlo.op("reduce", [candidate, positions, x, start, last, zero], [indices, indices, type], over, [
    hloExtreme("min", ["i32", "i32", dtype]),
  ]);
  return signs(hlo, value as HloValue);
}

/** Each column (or row) times its factor. */
export const timesColumns = (hlo: HloBlock, x: HloValue, factors: HloValue, dim: 1 | 2 = 2): HloValue =>
  hlo.same("multiply", x, hlo.broadcast(factors, x.type.shape, [0, dim]));

/** The results; all NaN for a matrix with numbers that are not finite, for which LAPACK defines nothing. */
export function ofFinite(hlo: HloBlock, x: HloValue, results: readonly HloValue[]): HloValue[] {
  const { shape, dtype } = x.type;
  // Zero by zero, or NaN.
  const differences = hlo.same("subtract", x, x);
  const zero = hlo.constant({ shape: [], dtype }, 0);
  const type = { shape: shape.slice(0, 1), dtype };
  const over = { dimensions: hloIntegers([1, 2]) };
  const sum = hlo.one("reduce", [differences, zero], type, over, [hloCombine("add", dtype)]);
  const isFinite = hlo.compare("EQ", sum, sum);
  return results.map((result) =>
    hlo.select(hlo.broadcast(isFinite, result.type.shape, [0]), result, hlo.like(result, Number.NaN)),
  );
}
