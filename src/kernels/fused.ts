/** @module Elementwise groups, without folds or with folds over rows or columns. */
import { dtypes } from "../ir/dtype.ts";
import { formatShape } from "../ir/shape.ts";
import { chunksOf } from "./partials.ts";
import { aligned, product } from "./room.ts";
import { dtype, instructions, kernel, reads, records, size, sizes, strides, type Values, writes } from "./schema.ts";

const fields = {
  shape: sizes(),
  in: records("FusedIn", {
    at: reads("[shape]", { strides: ["strides"], inPlace: true }),
    dtype: dtype(),
    strides: strides(),
  }),
  ops: instructions(),
};

/** Outputs without a stride for the folded dim have one value per row or column. */
const out = (short: string) =>
  records("FusedOut", {
    at: writes({ whole: "[shape]", short }, { strides: ["strides"] }),
    dtype: dtype(),
    strides: strides(),
    reg: size(),
  });

type Group = Values<typeof fields & { out: ReturnType<typeof out> }>;

const named = (name: string) => (call: Group) => {
  const all = call.ops.map((op) => String(op[op[0] === "fold" ? 2 : 0]));
  const computing = all.filter((op) => op !== "const");
  const names = computing.length > 0 ? computing : all;
  return `${name} ${names.length === 0 ? "copy" : names.join("+")} ${formatShape(call.shape)}`;
};

const facts = {
  space: "shape",
  struct: "Fused",
};

/** An elementwise group over an iteration space. */
export const fused = kernel(
  "fused",
  { ...fields, out: out("[shape]") },
  {
    ...facts,
    doc: "An elementwise group over an iteration space.",
    title: named("fused"),
    group: "elements",
  },
);

/** A group whose last dim is folded. */
export const fusedRows = kernel(
  "fusedRows",
  { ...fields, out: out("[init(shape)]") },
  {
    ...facts,
    doc: "An elementwise group with folds over rows: a fold combines the last dim of the shape (at most 16,384 elements).",
    title: named("fusedRows"),
    group: "rows",
  },
);

/** A group whose first dim is folded. */
export const fusedColumns = kernel(
  "fusedColumns",
  { ...fields, out: out("[tail(shape)]") },
  {
    ...facts,
    doc: "As `fusedRows`, but a fold combines the first dim of the shape, and nothing may be computed from it: each fold is an output. At most 8 folds.",
    title: named("fusedColumns"),
    group: "columns",
    work: columnBytes,
  },
);

/** Bytes of the partial results of each fold, by chunk. */
function columnBytes({ shape, in: inputs, out: outs }: Group): number {
  const [rows, ...sizes] = shape as [number, ...number[]];
  const isFold = (operand: { readonly strides: readonly number[] }): boolean => operand.strides.length === sizes.length;
  const operands = [...inputs, ...outs].map((view) => (isFold(view) ? view.strides : view.strides.slice(1)));
  const outputs = product(sizes);
  const columns = innermost(sizes, operands);
  const chunks = chunksOf(outputs / columns, columns, rows);
  if (chunks === 1 || outputs === 0) return 0;
  const bytes = outs.filter(isFold).map((output) => chunks * outputs * dtypes[output.dtype].bytes);
  return bytes.reduce((total, size) => total + aligned(size), 0);
}

/** The size of the innermost dim after merging dims that are contiguous in all operands. */
function innermost(sizes: readonly number[], operands: readonly (readonly number[])[]): number {
  let inner = 1;
  let next: number[] | undefined;
  for (let dim = sizes.length - 1; dim >= 0; dim--) {
    const size = sizes[dim] as number;
    if (size === 1) continue;
    const strides = operands.map((operand) => operand[dim] as number);
    if (next !== undefined && strides.some((stride, index) => stride !== next?.[index])) break;
    inner *= size;
    next = strides.map((stride) => stride * size);
  }
  return inner;
}
