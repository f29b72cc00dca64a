/** @module Convolutions and sliding windows, in StableHLO. */
import { type Shape, sizeOf, type TensorType } from "../ir/shape.ts";
import { type ConvAttrs, convDims, orderFor, sizeAt } from "../ops/convolution-lower.ts";
import { inverseOrder } from "../ops/host-arrays.ts";
import { identityOf } from "../ops/reduce.ts";
import type { WindowAttrs } from "../ops/window-lower.ts";
import {
  type HloBlock,
  type HloContext,
  type HloValue,
  hloCombine,
  hloFullPrecision,
  hloIntegers,
  hloTable,
} from "./block.ts";
import { scatterNumbers } from "./lookup.ts";
import { stablehloRules } from "./rules.ts";
import { hloExtreme, hloIndices, hloInSingle, hloKeeps, hloReductions } from "./shared.ts";

/** StableHLO's convolution; groups are parts of the input's features and of the output's features. */
function hloConv({ hlo, inputs, outputs, attrs }: HloContext<ConvAttrs>, groups = 1): readonly HloValue[] {
  const { x, kernel, out, spatial } = convDims(attrs.layout);
  const parts = [x, kernel, out].map((letters) => `[${[...letters].join(", ")}]`);
  return hlo.op("convolution", inputs, outputs, {
    dimension_numbers: `#stablehlo.conv<${parts[0]}x${parts[1]}->${parts[2]}>`,
    window_strides: hloIntegers(attrs.strides),
    padding: hloTable(attrs.padding, 2),
    lhs_dilation: hloIntegers(attrs.inputDilation),
    rhs_dilation: hloIntegers(attrs.kernelDilation),
    window_reversal: spatial.length === 0 ? "array<i1>" : `array<i1: ${spatial.map(() => "false").join(", ")}>`,
    feature_group_count: `${groups} : i64`,
    batch_group_count: "1 : i64",
    precision_config: hloFullPrecision,
  });
}

/** StableHLO has groups within the features: `g` is moved before `f` and `o`, and merged with them. */
function hloGrouped({ hlo, inputs, outputs, attrs }: HloContext<ConvAttrs>): readonly HloValue[] {
  const dims = convDims(attrs.layout);
  const spatial = dims.spatial.join("");
  const groups = sizeAt(inputs[0]?.type.shape as Shape, dims.x, "g");
  const permute = (value: HloValue, order: readonly number[]): HloValue => {
    const { shape, dtype } = value.type;
    const type = { shape: order.map((dim) => shape[dim] as number), dtype };
    return hlo.one("transpose", [value], type, { permutation: hloIntegers(order) });
  };
  const merged = ([, , ...others]: Shape, [first, second]: Shape, lead: Shape): number[] => [
    ...lead,
    (first as number) * (second as number),
    ...others,
  ];
  const mergeGroups = (value: HloValue, letters: string, target: string, lead: number): HloValue => {
    const transposed = permute(value, orderFor(letters, target));
    const { shape, dtype } = transposed.type;
    const mergedShape = merged(shape.slice(lead), shape.slice(lead), shape.slice(0, lead));
    return hlo.one("reshape", [transposed], { shape: mergedShape, dtype });
  };
  const x = mergeGroups(inputs[0] as HloValue, dims.x, `bgf${spatial}`, 1);
  const kernel = mergeGroups(inputs[1] as HloValue, dims.kernel, `goi${spatial}`, 0);
  const { shape, dtype } = outputs[0] as TensorType;
  const order = orderFor(dims.out, `bgf${spatial}`);
  const splitShape = order.map((dim) => shape[dim] as number);
  const out = { shape: merged(splitShape.slice(1), splitShape.slice(1), splitShape.slice(0, 1)), dtype };
  const ungrouped = { ...attrs, layout: `bf${spatial},oi${spatial}->bf${spatial}` };
  const [result] = hloConv({ hlo, inputs: [x, kernel], outputs: [out], attrs: ungrouped }, groups);
  const wide = hlo.one("reshape", [result as HloValue], { shape: splitShape, dtype });
  return [permute(wide, inverseOrder(order))];
}

const hloWindow = ({ window, strides, padding }: WindowAttrs) => ({
  window_dimensions: hloIntegers(window),
  window_strides: hloIntegers(strides),
  padding: hloTable(padding, 2),
});

const hloDilated = (attrs: WindowAttrs) => ({
  ...hloWindow(attrs),
  ...(attrs.dilation === undefined ? {} : { window_dilations: hloIntegers(attrs.dilation) }),
});

/** The row-major index in x of each window's extreme, and the element of a second tensor at that index. */
function hloTaken(hlo: HloBlock, [x, source]: readonly [HloValue, HloValue], type: TensorType, attrs: WindowAttrs) {
  const { shape, dtype } = type;
  const { indices, none } = hloIndices(hlo, x.type.shape);
  const scalar = (value: number): HloValue => hlo.constant({ shape: [], dtype }, value);
  const starts = [scalar(identityOf(attrs.op, dtype)), none, scalar(0)];
  const types = [type, { shape, dtype: "i32" as const }, type];
  const region = hloExtreme(attrs.op === "min" ? "min" : "max", [dtype, "i32", dtype]);
  const results = hlo.op("reduce_window", [x, indices, source, ...starts], types, hloDilated(attrs), [region]);
  return { position: results[1] as HloValue, taken: results[2] as HloValue };
}

/** StableHLO's select_and_scatter has no dilation: this finds the indices of the extremes and scatters to them. */
function hloScattered(
  hlo: HloBlock,
  inputs: readonly HloValue[],
  outputs: readonly TensorType[],
  attrs: WindowAttrs,
): readonly HloValue[] {
  const [x, source] = inputs as [HloValue, HloValue];
  const { shape, dtype } = outputs[0] as TensorType;
  const { position } = hloTaken(hlo, [x, x], { shape: source.type.shape, dtype }, attrs);
  const size = [sizeOf(source.type.shape)];
  const flat = (value: HloValue): HloValue => hlo.one("reshape", [value], { shape: size, dtype: value.type.dtype });
  const zeros = hlo.constant({ shape: [sizeOf(shape)], dtype }, 0);
  const region = [hloCombine("add", dtype)];
  const type = { shape: zeros.type.shape, dtype };
  const sums = hlo.one("scatter", [zeros, flat(position), flat(source)], type, scatterNumbers(1, 1, 0), region);
  return [hlo.one("reshape", [sums], { shape, dtype })];
}

stablehloRules.define({
  conv: (context: HloContext<ConvAttrs>) =>
    convDims(context.attrs.layout).grouped ? hloGrouped(context) : hloConv(context),
  reduceWindow: hloInSingle<WindowAttrs>(({ hlo, inputs, outputs, attrs }) => {
    const { dtype } = outputs[0] as TensorType;
    const start = hlo.constant({ shape: [], dtype }, identityOf(attrs.op, dtype));
    const combined = hloCombine(hloReductions[attrs.op], dtype);
    return hlo.op("reduce_window", [inputs[0] as HloValue, start], outputs, hloDilated(attrs), [combined]);
  }),
  selectAndScatter: ({ hlo, inputs, outputs, attrs }: HloContext<WindowAttrs>) => {
    const { dtype } = outputs[0] as TensorType;
    if (attrs.dilation?.some((gap) => gap !== 1)) return hloScattered(hlo, inputs, outputs, attrs);
    const zero = hlo.constant({ shape: [], dtype }, 0);
    const regions = [hloKeeps(attrs.op, dtype), hloCombine("add", dtype)];
    return hlo.op("select_and_scatter", [...inputs, zero], outputs, hloWindow(attrs), regions);
  },
  windowTake: ({ hlo, inputs, outputs, attrs }: HloContext<WindowAttrs>) => {
    return [hloTaken(hlo, inputs as [HloValue, HloValue], outputs[0] as TensorType, attrs).taken];
  },
});
