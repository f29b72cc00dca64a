/** @module Checks of a compile's options for layouts and links, before planning. */
import { inputSpecs } from "../ir/graph.ts";
import type { Graph } from "../ir/node.ts";
import { formatLayout, type Layout, replicate } from "../plan/layout.ts";
import { formatMesh, type Mesh } from "../plan/mesh.ts";
import { HeddleError } from "../util/errors.ts";
import { nearest } from "../util/options.ts";
import type { CompileOptions } from "./options.ts";

/**
 * Refuses the name of an axis that is nearly one of the mesh; other unknown names are ignored. Digits tell axes apart:
 * `model1` is not `model2`.
 *
 * @param what where the names are from, for the message
 * @throws HeddleError `option`
 */
export function checkAxisNames(what: string, names: readonly string[], mesh: Mesh): void {
  const known = mesh.axes.map(({ name }) => name);
  for (const name of names) {
    const near = known.includes(name) ? undefined : nearest(name, known);
    const [left, right] = [name, near ?? ""].map((text) => text.replaceAll(/\d/g, ""));
    if (near === undefined || near.length < 3 || left === right) continue;
    throw new HeddleError("option", `${what} '${name}', the mesh ${formatMesh(mesh)} has no such axis`, {
      hint: `did you mean '${near}'?`,
    });
  }
}

/**
 * Refuses `uses` in a pipeline, whose micro-batches use values as they are kept: a gather would wait for the stage before.
 *
 * @throws HeddleError `pipeline` with an input that has another layout for use
 */
export function checkUses(graph: Graph, { inputs = [], uses = [] }: CompileOptions): void {
  const index = uses.findIndex(
    (used, input) => used && formatLayout(used) !== formatLayout(inputs[input] ?? used.map(() => replicate)),
  );
  if (index < 0) return;
  const used = `'${inputSpecs(graph)[index]?.name}' has the layout for use ${formatLayout(uses[index] as Layout)}`;
  throw new HeddleError("pipeline", `${used}, but a pipeline uses values as they are kept`, {
    hint: "keep it as it is used: a layout with shard alone, without gather, as layouts.named gives",
  });
}
