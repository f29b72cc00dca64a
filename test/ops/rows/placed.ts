/** @module Rows of the op of withLayout; what plans make of it is tested in test/plan/placed.test.ts. */
import "../../../src/placed/with-layout.ts";
import type { Row } from "../../support/row.ts";
import { floats } from "../../support/tensors.ts";

export const placedTable: readonly Row[] = [
  {
    op: "placed",
    title: "on axes that the mesh lacks",
    inputs: [floats([4, 8])],
    attrs: { dims: { elsewhere: 0, nowhere: null } },
    expected: (x) => [Array.from(x.data as Float32Array)],
    gradient: true,
    tolerance: 0,
    shardings: ["S(0) -> S(0)", "S(1) -> S(1)", "P(sum) -> P(sum)"],
  },
];
