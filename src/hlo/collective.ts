/** @module Collectives in StableHLO. */
import type { CollectiveAttrs } from "../ir/communication.ts";
import type { Reduction } from "../ir/equation.ts";
import { absent } from "../ir/node.ts";
import type { TensorType } from "../ir/shape.ts";
import { type HloBlock, type HloContext, hloCombine, hloTable } from "./block.ts";
import { stablehloRules } from "./rules.ts";
import { hloReductions } from "./shared.ts";

const twoPrograms = absent("StableHLO modules are one program for all replicas");

/** The devices of a mesh are the replicas of StableHLO. */
function hloGroups(hlo: HloBlock, axis: string) {
  const { groups, size } = hlo.surroundings.axis(axis);
  return { replica_groups: hloTable(groups, size) };
}

stablehloRules.define({
  axisIndex: ({ hlo, outputs, attrs }: HloContext<{ axis: string }>) => {
    const { size, inner } = hlo.surroundings.axis(attrs.axis);
    const replica = hlo.one("replica_id", [], { shape: [], dtype: "u32" });
    const outer = hlo.same("divide", replica, hlo.like(replica, inner));
    const coordinate = hlo.same("remainder", outer, hlo.like(replica, size));
    return hlo.op("convert", [coordinate], outputs);
  },
  allReduce: ({ hlo, inputs, outputs, attrs }: HloContext<CollectiveAttrs & { reduction: Reduction }>) =>
    inputs.map((input, index) =>
      hlo.one("all_reduce", [input], outputs[index] as TensorType, hloGroups(hlo, attrs.axis), [
        hloCombine(hloReductions[attrs.reduction], input.type.dtype),
      ]),
    ),
  allGather: ({ hlo, inputs, outputs, attrs }: HloContext<CollectiveAttrs & { dim: number }>) =>
    hlo.op("all_gather", inputs, outputs, { all_gather_dim: `${attrs.dim} : i64`, ...hloGroups(hlo, attrs.axis) }),
  reduceScatter: ({
    hlo,
    inputs,
    outputs,
    attrs,
  }: HloContext<CollectiveAttrs & { dim: number; reduction: Reduction }>) => {
    const attributes = { scatter_dimension: `${attrs.dim} : i64`, ...hloGroups(hlo, attrs.axis) };
    const { dtype } = outputs[0] as TensorType;
    return hlo.op("reduce_scatter", inputs, outputs, attributes, [hloCombine(hloReductions[attrs.reduction], dtype)]);
  },
  allToAll: ({ hlo, inputs, outputs, attrs }: HloContext<CollectiveAttrs & { from: number; to: number }>) =>
    hlo.op("all_to_all", inputs, outputs, {
      split_dimension: `${attrs.to} : i64`,
      concat_dimension: `${attrs.from} : i64`,
      split_count: `${attrs.parts} : i64`,
      ...hloGroups(hlo, attrs.axis),
    }),
  send: twoPrograms,
  receive: twoPrograms,
  exchange: absent("StableHLO's replicas run one program, and these devices send different amounts"),
});
