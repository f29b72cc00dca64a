/** @module A table of a model's layers: what each makes, and how many parameters it has. */
import { isTensorType, sizeOf, type TensorType } from "../ir/shape.ts";
import { type FloatDType, withFloats } from "../nn/float-dtype.ts";
import type { Layer } from "../nn/index.ts";
import { evalShape, type Tensors } from "../tensor/index.ts";
import { formatCount, formatTable } from "../util/text.ts";
import { flattenTree } from "../util/tree.ts";

interface Row {
  readonly name: string;
  readonly kind: string;
  readonly output: TensorType;
  readonly parameters: number;
  readonly state: number;
}

const keyType: TensorType = { shape: [2], dtype: "u32" };

/** The lines of the table, for an input of this type; its first dim, the batch, is shown as a dash. */
export function summaryLines(layer: Layer, input: TensorType, dtype: FloatDType = "f32"): string[] {
  const rows = withFloats(dtype, () => rowsOf("", layer, input));
  const total = (pick: (row: Row) => number): number => rows.reduce((sum, row) => sum + pick(row), 0);
  const [parameters, state] = [total((row) => row.parameters), total((row) => row.state)];
  const cells = rows.map(({ name, kind, output, parameters: count }) => [
    name,
    kind,
    `[${["-", ...output.shape.slice(1)].join(", ")}]`,
    formatCount(count),
  ]);
  return [
    ...formatTable([["layer", "kind", "output", "parameters"], ...cells], [3]),
    `  ${formatCount(parameters)} parameters${state === 0 ? "" : `, ${formatCount(state)} numbers of state besides`}`,
  ];
}

/** A row for each layer that has none of its own inside. */
function rowsOf(path: string, layer: Layer, input: TensorType): Row[] {
  const parts = Object.values(layer.layers ?? {});
  if (parts.length === 0) return [rowOf(path, layer, input)];
  let seen = input;
  return parts.flatMap((part, index) => {
    const own = rowsOf(path === "" ? `${index}` : `${path}.${index}`, part, seen);
    seen = own.at(-1)?.output ?? seen;
    return own;
  });
}

function rowOf(name: string, layer: Layer, input: TensorType): Row {
  let output = input;
  const { params, state } = evalShape((key) => {
    const made = layer.init(key, input);
    output = made.output;
    return { params: made.params, state: made.state };
  }, keyType);
  const count = (tree: unknown): number =>
    flattenTree(tree as Tensors, isTensorType).leaves.reduce((sum, { shape }) => sum + sizeOf(shape), 0);
  return { name, kind: layer.kind, output, parameters: count(params), state: count(state) };
}
