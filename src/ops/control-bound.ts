/** @module The bound on the iterations of a loop, as an op: what fails where the loop runs past it says so. */
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
  doc: "Element `at` (i32) of a table with an element (bool) for each iteration that the loop may take; a later one is an error of the run, told as that of the loop.",
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
  gradient: absent("a bool has none"),
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
  // Its body and its kernel know the lookup alone. Said whole: neither iterations nor the caller stand before it.
  says: (_fault, [table], { loop, done = 0 }) => ({
    kind: "pastBound",
    loop,
    most: done + ((table as TensorType).shape[0] as number),
  }),
});

/** true, where iteration `at` is one that the loop may take; else the run fails. `table` has an element for each. */
export function withinBound(table: Node, at: Node, loop: string, done = 0): Node {
  const attrs = done === 0 ? { loop } : { loop, done };
  return speakingAs(speakerNow() ?? { name: "whileLoop" }, () => emit.call(withinBoundOp.name, [table, at], attrs));
}
