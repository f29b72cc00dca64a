/** @module The bound on the iterations of a loop, as an op: its error says that the loop ran past the bound. */
import { equationOf } from "../ir/equation.ts";
import type { View } from "../ir/kernel.ts";
import { absent, type Node, type OpDef } from "../ir/node.ts";
import type { TensorType } from "../ir/shape.ts";
import * as kernels from "../kernels/index.ts";
import { speakerNow, speakingAs } from "../util/source.ts";
import { batchByLoop } from "./batch.ts";
import { defineComposite } from "./composite.ts";
import * as emit from "./emit.ts";

/** For the message: `loop` is the name of the loop's body, `done` the number of iterations before the table's first; default 0. */
type BoundAttrs = { loop: string; done?: number };

const withinBoundOp: OpDef<BoundAttrs> = defineComposite<BoundAttrs>({
  name: "withinBound",
  doc: "Element `at` (i32) of a bool table with an element for each iteration that the loop may take. A later iteration is an error of the run, reported as the loop's.",
  example: {
    inputs: [
      { dtype: "bool", shape: [2], data: Uint8Array.of(1, 1) },
      { dtype: "i32", shape: [], data: Int32Array.of(1) },
    ],
    attrs: { loop: "body" },
    outputs: [{ dtype: "bool", shape: [], data: Uint8Array.of(1) }],
  },
  body: ([table, at]) => [emit.gather(table as Node, at as Node)],
  equation: () => equationOf([["n"], []], [[]], { whole: ["n"] }),
  linear: [],
  gradient: absent("bool has no gradient"),
  batch: batchByLoop,
  form: { kind: "kernel" },
  lower: {
    emit: (context) => {
      const [table, at] = context.inputs as [View, View];
      const size = table.shape[0] as number;
      return [
        kernels.gather.call({
          dtype: "bool",
          outer: 1,
          size,
          inner: 1,
          count: 1,
          in: context.at(table),
          indices: context.at(at),
          out: context.at(context.outputs[0] as View),
        }),
      ];
    },
  },
  // The body and the kernel know only the lookup. This message stands alone, without iteration or caller in front.
  says: (_fault, [table], { loop, done = 0 }) => ({
    kind: "pastBound",
    loop,
    most: done + ((table as TensorType).shape[0] as number),
  }),
});

/** true if the loop may take iteration `at`, else the run fails. `table` has an element for each allowed iteration. */
export function withinBound(table: Node, at: Node, loop: string, done = 0): Node {
  const attrs = done === 0 ? { loop } : { loop, done };
  return speakingAs(speakerNow() ?? { name: "whileLoop" }, () => emit.call(withinBoundOp.name, [table, at], attrs));
}
