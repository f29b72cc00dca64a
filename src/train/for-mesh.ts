/** @module Compression in a training: what it keeps has a row for each device, so settings and types depend on the mesh. */
import { checkCompression, onMesh } from "../compression/options.ts";
import { isTensorType } from "../ir/shape.ts";
import type { Mesh } from "../plan/index.ts";
import { flattenTree } from "../util/tree.ts";
import { modelTypes } from "./functions.ts";
import type { Settings } from "./options.ts";
import { stageOfParameters } from "./pipeline.ts";
import type { ModelTypes } from "./values.ts";

/** @throws HeddleError `option` where the option `compression` does not fit the model or the optimizer */
export function checkCompressed({ compression }: Settings, { state }: ModelTypes): void {
  if (compression === undefined) return;
  const paths = (tree: ModelTypes["state"]["params"]): string[] => flattenTree(tree, isTensorType).paths;
  checkCompression(compression, paths(state.params), paths(state.optimizer));
}

/** The settings of a training on a mesh, and the types of its values. */
export function forMesh(
  settings: Settings,
  types: ModelTypes,
  mesh: Mesh,
): { readonly settings: Settings; readonly types: ModelTypes } {
  if (settings.compression === undefined) return { settings, types };
  const { pipeline } = settings;
  const names = flattenTree(types.state.params, isTensorType).paths;
  const stageOf = pipeline && stageOfParameters(pipeline, names);
  const onThis = { ...settings, compression: onMesh(settings.compression, mesh, stageOf) };
  return { settings: onThis, types: modelTypes(onThis) };
}
