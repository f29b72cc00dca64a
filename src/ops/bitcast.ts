/** @module The bits of elements, read as another dtype. */
import { type DType, dtypes } from "../ir/dtype.ts";
import { movingKernel, type View } from "../ir/kernel.ts";
import { pointwiseEquation } from "../ir/leaf.ts";
import { absent, type HostTensor } from "../ir/node.ts";
import { defineOp } from "../ir/op.ts";
import { formatType } from "../ir/shape.ts";
import { HeddleError } from "../util/errors.ts";
import { batchByEquation } from "./batch.ts";
import { copyCall, moves } from "./movement.ts";
import { checkOperands } from "./scalar-ops.ts";

defineOp<{ dtype: DType }>({
  name: "bitcast",
  doc: "The same bits as another dtype of the same width (StableHLO bitcast_convert).",
  example: {
    inputs: [{ dtype: "f32", shape: [3], data: Float32Array.of(1, -0, Infinity) }],
    attrs: { dtype: "i32" },
    outputs: [{ dtype: "i32", shape: [3], data: Int32Array.of(0x3f800000, -0x80000000, 0x7f800000) }],
  },
  infer: (inputs, { dtype }) => {
    const x = checkOperands("bitcast", inputs, 1);
    if (x.dtype === "bool" || dtype === "bool")
      throw new HeddleError("dtype", `bitcast: not defined for bool: ${formatType(x)} to ${dtype}`, {
        hint: "use cast",
      });
    const [oldBits, newBits] = [x.dtype, dtype].map((type) => dtypes[type as DType].bytes * 8);
    if (oldBits !== newBits)
      throw new HeddleError(
        "dtype",
        `bitcast: ${dtype} has ${newBits} bits, ${x.dtype} has ${oldBits} (${formatType(x)}): the widths must be the same`,
      );
    return { dtype, shape: x.shape };
  },
  equation: pointwiseEquation,
  linear: [],
  gradient: () => [undefined],
  batch: batchByEquation(),
  localize: absent("attributes hold no sizes"),
  cost: moves,
  reference: ([x], { dtype }) => {
    const { dtype: from, data } = x as HostTensor;
    const { buffer } = dtypes[from].bytesOf(data).slice();
    return [dtypes[dtype].view(buffer, 0, data.length)];
  },
  form: movingKernel,
  lower: {
    strided: [0],
    // A copy that reads the input as the other dtype.
    emit: (context) => {
      const [x, out] = [context.inputs[0], context.outputs[0]] as [View, View];
      return [copyCall(context, { ...x, dtype: out.dtype }, out)];
    },
  },
});
