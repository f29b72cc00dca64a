/** @module Reductions, sorts and matrix products in StableHLO. */
import { type DType, isFloat } from "../ir/dtype.ts";
import { type Shape, sizeOf, type TensorType } from "../ir/shape.ts";
import type { CumulativeAttrs } from "../ops/cumulative.ts";
import type { DotAttrs } from "../ops/narrow/dtypes.ts";
import { identityOf, type ReduceAttrs } from "../ops/reduce.ts";
import type { SortAttrs } from "../ops/sort.ts";
import {
  type HloBlock,
  type HloContext,
  type HloRegion,
  type HloValue,
  hloCombine,
  hloFullPrecision,
  hloIntegers,
  hloTable,
} from "./block.ts";
import { stablehloRules } from "./rules.ts";
import { hloExtreme, hloIndices, hloInSingle, hloReductions } from "./shared.ts";

const hloLogAddExp = (dtype: DType): HloRegion => ({
  arguments: [
    { shape: [], dtype },
    { shape: [], dtype },
  ],
  body: (hlo: HloBlock, inputs) => {
    const [x, y] = inputs as [HloValue, HloValue];
    const [larger, smaller] = [hlo.same("maximum", x, y), hlo.same("minimum", x, y)];
    const part = hlo.same("log_plus_one", hlo.same("exponential", hlo.same("subtract", smaller, larger)));
    const equal = hlo.compare("EQ", x, y);
    return [hlo.same("add", larger, hlo.select(equal, hlo.like(x, Math.LN2), part))];
  },
});

/** The comparator of a stable sort: whether the first of two tuples comes before the second. */
const hloBefore = (dtypesOf: readonly DType[], descending: boolean): HloRegion => ({
  arguments: dtypesOf.flatMap((dtype) => [
    { shape: [], dtype },
    { shape: [], dtype },
  ]),
  body: (hlo, inputs) => {
    const [left, right] = inputs as [HloValue, HloValue];
    const [x, y] = descending ? [right, left] : [left, right];
    const less = hlo.compare("LT", x, y);
    if (!isFloat(dtypesOf[0] as DType)) return [less];
    const onlyY = hlo.same("and", hlo.compare("NE", y, y), hlo.compare("EQ", x, x));
    return [hlo.same("or", less, onlyY)];
  },
});

function hloSort(hlo: HloBlock, inputs: readonly HloValue[], descending: boolean): HloValue[] {
  const types = inputs.map(({ type }) => type);
  const attributes = { dimension: `${(types[0]?.shape.length as number) - 1} : i64`, is_stable: "true" };
  return hlo.op("sort", inputs, types, attributes, [
    hloBefore(
      types.map(({ dtype }) => dtype as DType),
      descending,
    ),
  ]);
}

stablehloRules.define({
  reduce: hloInSingle<ReduceAttrs>(({ hlo, inputs, outputs, attrs }) => {
    const x = inputs[0] as HloValue;
    const { dtype } = outputs[0] as TensorType;
    if (attrs.dims.length === 0) return inputs;
    const start = hlo.constant({ shape: [], dtype }, identityOf(attrs.op, dtype));
    const combined = hloCombine(hloReductions[attrs.op], dtype);
    return hlo.op("reduce", [x, start], outputs, { dimensions: hloIntegers(attrs.dims) }, [combined]);
  }),
  argMax: ({ hlo, inputs, outputs, attrs }: HloContext<{ dim: number }>) => {
    const x = inputs[0] as HloValue;
    const { dtype } = x.type;
    const start = hlo.constant({ shape: [], dtype }, identityOf("max", dtype as DType));
    const { indices, none } = hloIndices(hlo, x.type.shape, attrs.dim);
    const types = [{ shape: outputs[0]?.shape as Shape, dtype }, outputs[0] as TensorType];
    const values = [x, indices, start, none];
    return hlo
      .op("reduce", values, types, { dimensions: hloIntegers([attrs.dim]) }, [hloExtreme("max", [dtype, "i32"])])
      .slice(1);
  },
  // StableHLO has no cumulative ops: each result is a window over all elements so far.
  cumulative: hloInSingle<CumulativeAttrs>(({ hlo, inputs, outputs, attrs: { kind, dim } }) => {
    const { shape, dtype } = outputs[0] as TensorType;
    if (sizeOf(shape) === 0) return inputs;
    const along = (onDim: number, onOthers: number): number[] =>
      shape.map((_size, other) => (other === dim ? onDim : onOthers));
    const size = shape[dim] as number;
    const attributes = {
      window_dimensions: hloIntegers(along(size, 1)),
      window_strides: hloIntegers(along(1, 1)),
      padding: hloTable(
        along(size - 1, 0).map((low) => [low, 0]),
        2,
      ),
    };
    const identity = kind === "logSumExp" ? -Infinity : identityOf(kind, dtype);
    const start = hlo.constant({ shape: [], dtype }, identity);
    const region = kind === "logSumExp" ? hloLogAddExp(dtype) : hloCombine(hloReductions[kind], dtype);
    return hlo.op("reduce_window", [inputs[0] as HloValue, start], outputs, attributes, [region]);
  }),
  sort: ({ hlo, inputs, attrs }: HloContext<SortAttrs>) => hloSort(hlo, inputs, attrs.descending),
  topK: ({ hlo, inputs, outputs }) => {
    const [x] = inputs as [HloValue];
    const { shape } = x.type;
    const indices = hlo.one("iota", [], { shape, dtype: "i32" }, { iota_dimension: `${shape.length - 1} : i64` });
    const limit = outputs[0]?.shape as readonly number[];
    const ones = shape.map(() => 1);
    const attributes = { start_indices: shape.map(() => 0), limit_indices: limit, strides: ones };
    const text = Object.fromEntries(Object.entries(attributes).map(([name, list]) => [name, hloIntegers(list)]));
    return hloSort(hlo, [x, indices], true).map((value, index) =>
      hlo.one("slice", [value], outputs[index] as TensorType, text),
    );
  },
  dot: ({ hlo, inputs, outputs, attrs: { dtype, ...attrs } }: HloContext<DotAttrs>) => {
    const lists = {
      lhs_batching_dimensions: attrs.xBatch,
      rhs_batching_dimensions: attrs.yBatch,
      lhs_contracting_dimensions: attrs.xContract,
      rhs_contracting_dimensions: attrs.yContract,
    };
    const numbers = Object.entries(lists).map(([name, dims]) => `${name} = [${dims.join(", ")}]`);
    const wide = dtype === undefined ? inputs : inputs.map((x) => hlo.convert(x, dtype));
    return hlo.op("dot_general", wide, outputs, {
      dot_dimension_numbers: `#stablehlo.dot<${numbers.join(", ")}>`,
      precision_config: hloFullPrecision,
    });
  },
});
