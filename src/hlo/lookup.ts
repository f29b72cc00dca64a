/** @module Rows by index, in StableHLO. */
import type { DType } from "../ir/dtype.ts";
import { range, type Shape, type TensorType } from "../ir/shape.ts";
import type { ScatterAttrs } from "../ops/scatter.ts";
import {
  type HloBlock,
  type HloContext,
  type HloRegion,
  type HloValue,
  hloCombine,
  hloIntegers,
  hloSame,
} from "./block.ts";
import { stablehloRules } from "./rules.ts";
import { hloReductions } from "./shared.ts";

/** The rank of the indices, StableHLO's batching dims, and the dims of a row in the gathered value. */
function hloRows(indexRank: number, tableRank: number, batchDims: number) {
  const row = range(tableRank - batchDims - 1).map((dim) => indexRank + dim);
  return { rank: indexRank, batch: range(batchDims).join(", "), rest: row.join(", ") };
}

/** StableHLO's gather of rows. */
export function gatherHlo(
  hlo: HloBlock,
  [x, indices]: readonly [HloValue, HloValue],
  outputs: readonly TensorType[],
  batchDims: number,
): readonly HloValue[] {
  const { rank, batch, rest } = hloRows(indices.type.shape.length, x.type.shape.length, batchDims);
  return hlo.op("gather", [x, indices], outputs, {
    dimension_numbers: `#stablehlo.gather<offset_dims = [${rest}], collapsed_slice_dims = [${batchDims}], operand_batching_dims = [${batch}], start_indices_batching_dims = [${batch}], start_index_map = [${batchDims}], index_vector_dim = ${rank}>`,
    slice_sizes: hloIntegers(x.type.shape.map((size, dim) => (dim <= batchDims ? Math.min(1, size) : size))),
  });
}

/** Attributes of StableHLO's scatter of rows. */
export function scatterNumbers(indexRank: number, tableRank: number, batchDims: number) {
  const { rank, batch, rest } = hloRows(indexRank, tableRank, batchDims);
  return {
    scatter_dimension_numbers: `#stablehlo.scatter<update_window_dims = [${rest}], inserted_window_dims = [${batchDims}], input_batching_dims = [${batch}], scatter_indices_batching_dims = [${batch}], scatter_dims_to_operand_dims = [${batchDims}], index_vector_dim = ${rank}>`,
  };
}

/** Indices counted from the first row of the block. */
function localIndices(hlo: HloBlock, indices: HloValue, start: HloValue): HloValue {
  return hlo.same("subtract", indices, hlo.broadcast(start, indices.type.shape, []));
}

const hloRegion = (op: ScatterAttrs["op"], dtype: DType): HloRegion =>
  op === "replace"
    ? {
        arguments: [
          { shape: [], dtype },
          { shape: [], dtype },
        ],
        body: (_hlo, [, update]) => [update as HloValue],
      }
    : hloCombine(hloReductions[op], dtype);

stablehloRules.define({
  gather: ({ hlo, inputs, outputs, attrs }: HloContext<{ batchDims: number }>) =>
    gatherHlo(hlo, inputs as [HloValue, HloValue], outputs, attrs.batchDims),
  scatterAdd: ({ hlo, inputs, outputs, attrs: { batchDims } }: HloContext<{ batchDims: number; size: number }>) => {
    const [updates, indices] = inputs as [HloValue, HloValue];
    const zeros = hlo.constant(outputs[0] as TensorType, 0);
    const attributes = scatterNumbers(indices.type.shape.length, zeros.type.shape.length, batchDims);
    return hlo.op("scatter", [zeros, indices, updates], outputs, attributes, [hloCombine("add", updates.type.dtype)]);
  },
  dynamicSlice: ({ hlo, inputs, outputs, attrs }: HloContext<{ sizes: Shape }>) =>
    hlo.op("dynamic_slice", inputs, outputs, { slice_sizes: hloIntegers(attrs.sizes) }),
  dynamicUpdateSlice: hloSame("dynamic_update_slice"),
  gatherPart: ({ hlo, inputs, outputs, attrs: { batchDims } }: HloContext<{ batchDims: number; total: number }>) => {
    const [x, indices, start] = inputs as [HloValue, HloValue, HloValue];
    const row = localIndices(hlo, indices, start);
    const size = x.type.shape[batchDims] as number;
    const inside = hlo.same(
      "and",
      hlo.compare("GE", row, hlo.like(row, 0)),
      hlo.compare("LT", row, hlo.like(row, size)),
    );
    const [gathered] = gatherHlo(hlo, [x, row], outputs, batchDims) as [HloValue];
    const mask = hlo.broadcast(inside, gathered.type.shape, range(row.type.shape.length));
    return [hlo.select(mask, gathered, hlo.like(gathered, 0))];
  },
  scatterAddPart: ({
    hlo,
    inputs,
    outputs,
    attrs: { batchDims },
  }: HloContext<{ batchDims: number; size: number; total: number }>) => {
    const [updates, indices, start] = inputs as [HloValue, HloValue, HloValue];
    // StableHLO ignores updates outside the operand.
    const row = localIndices(hlo, indices, start);
    const zeros = hlo.constant(outputs[0] as TensorType, 0);
    const attributes = scatterNumbers(row.type.shape.length, zeros.type.shape.length, batchDims);
    return hlo.op("scatter", [zeros, row, updates], outputs, attributes, [hloCombine("add", updates.type.dtype)]);
  },
  scatter: ({ hlo, inputs, outputs, attrs: { op, batchDims } }: HloContext<ScatterAttrs>) => {
    const [x, indices] = inputs as [HloValue, HloValue];
    const attributes = scatterNumbers(indices.type.shape.length, x.type.shape.length, batchDims);
    return hlo.op("scatter", inputs, outputs, attributes, [hloRegion(op, (outputs[0] as TensorType).dtype)]);
  },
});
