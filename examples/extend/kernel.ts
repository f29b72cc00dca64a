/**
 * Your own composite with a kernel for the code generator: `softCap(x) = cap * tanh(x / cap)`. The body defines its
 * meaning: derivatives, batches and every executor without the kernel use the body. The kernel is one fused group.
 *
 *     heddle run examples/extend/kernel.ts     # differs from the body by 0, 2 s
 */
import { grad, jit, tensor, tensorFunction, vmap } from "heddle";
import { absent, apply, type Node, pointwiseEquation, sizeOf, type View } from "heddle/ir";
import * as ops from "heddle/ops";

const softCapOp = ops.defineComposite<{ cap: number }>({
  name: "softCap",
  doc: "cap * tanh(x / cap): x, held between -cap and cap.",
  example: absent("shown below"),
  body: ([x], { cap }) => [ops.mul(ops.tanh(ops.div(x as Node, cap)), cap)],
  equation: pointwiseEquation,
  linear: [],
  gradient: absent("that of the body"),
  batch: absent("that of the body"),
  form: { kind: "kernel" },
  lower: {
    emit: ({ attrs: { cap }, inputs, outputs, at }) => {
      const [from, to] = [inputs[0] as View, outputs[0] as View];
      const { dtype } = from;
      const strides = [1];
      return [
        {
          k: "fused",
          shape: [sizeOf(from.shape)],
          in: [{ at: at(from), dtype, strides }],
          // Registers: 0 is x, then one for each instruction.
          ops: [
            ["const", dtype, cap],
            ["div", dtype, 0, 1],
            ["tanh", dtype, 2],
            ["mul", dtype, 3, 1],
          ],
          out: [{ at: at(to), dtype, strides, reg: 4 }],
        },
      ];
    },
  },
});

const softCap = tensorFunction("softCap", (x) => apply(softCapOp, [x], { cap: 2 }));

const x = tensor([
  [-100, -1],
  [0, 1],
]);
const expected = x.div(2).tanh().mul(2);
const off = jit(softCap)(x).sub(expected).abs().max();
console.log("differs by", await off.data().then(([value]) => value));
console.log(
  "gradient",
  [...(await grad((y: typeof x) => softCap(y).sum())(x).data())].map((value) => Number(value).toFixed(3)).join(" "),
);
console.log("batch", (await vmap(softCap)(x).data()).length);
