/** @module Settings and types that depend on the mesh: what compression keeps has a row for each device. */
import { onMesh } from "../compression/options.ts";
import type { Mesh } from "../plan/index.ts";
import { modelTypes } from "./functions.ts";
import type { Settings } from "./options.ts";
import type { ModelTypes } from "./values.ts";

/** The settings of a training on a mesh, and the types of its values. */
export function forMesh(
  settings: Settings,
  types: ModelTypes,
  mesh: Mesh,
): { readonly settings: Settings; readonly types: ModelTypes } {
  if (settings.compression === undefined) return { settings, types };
  const onThis = { ...settings, compression: onMesh(settings.compression, mesh) };
  return { settings: onThis, types: modelTypes(onThis) };
}
