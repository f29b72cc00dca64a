/** @module What a compile may be told of layouts and links, checked before anything is planned. */
import { inputSpecs } from "../ir/graph.ts";
import type { Graph } from "../ir/node.ts";
import { formatLayout, type Layout, replicate } from "../plan/layout.ts";
import { formatMesh, type Mesh } from "../plan/mesh.ts";
import { HeddleError } from "../util/errors.ts";
import { nearest } from "../util/options.ts";
import type { CompileOptions } from "./options.ts";

/**
 * Refuses the name of an axis that is nearly one of the mesh; one that the mesh has not is passed over. Numbers tell axes apart:
 * `model1` is not `model2`.
 *
 * @param what what names them, for the message
 * @throws HeddleError `option`
 */
export function checkAxisNames(what: string, names: readonly string[], mesh: Mesh): void {
  const known = mesh.axes.map(({ name }) => name);
  for (const name of names) {
    const near = known.includes(name) ? undefined : nearest(name, known);
    const [one, other] = [name, near ?? ""].map((text) => text.replaceAll(/\d/g, ""));
    if (near === undefined || near.length < 3 || one === other) continue;
    throw new HeddleError("option", `${what} '${name}', the mesh ${formatMesh(mesh)} has no such axis`, {
      hint: `did you mean '${near}'?`,
    });
  }
}

/**
 * A pipeline's micro-batches use everything as it is kept: what is gathered for one would wait for the stage before.
 *
 * @throws HeddleError `pipeline` naming an input that is to be used otherwise
 */
export function checkUses(graph: Graph, { inputs = [], uses = [] }: CompileOptions): void {
  const index = uses.findIndex(
    (used, place) => used && formatLayout(used) !== formatLayout(inputs[place] ?? used.map(() => replicate)),
  );
  if (index < 0) return;
  const used = `'${inputSpecs(graph)[index]?.name}' is to be used as ${formatLayout(uses[index] as Layout)}`;
  throw new HeddleError("pipeline", `${used}, and a pipeline uses all as it is kept`, {
    hint: "keep it as it is used: a layout with shard alone, without gather, as layouts.named gives",
  });
}
