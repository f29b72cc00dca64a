/** @module Checks of the names of mesh axes in layouts and links, before planning. */
import { formatMesh, type Mesh } from "../plan/mesh.ts";
import { HeddleError } from "../util/errors.ts";
import { nearest } from "../util/options.ts";

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
