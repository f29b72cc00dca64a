/** @module The weights in a file as values of a model. */

import { toTensor } from "../io/host.ts";
import { checkFits, mismatches } from "../io/state-dict.ts";
import type { HostTensor } from "../ir/node.ts";
import { isTensorType, type TensorType } from "../ir/shape.ts";
import type { Layer } from "../nn/index.ts";
import { evalShape, type Tensors } from "../tensor/index.ts";
import type { StartValues } from "../train/start.ts";
import { flattenTree, unflattenTree } from "../util/tree.ts";

/**
 * Values of a model for an input of this type, by their names in a file.
 *
 * @throws HeddleError `model` naming all that are missing, too many, or of another type
 */
export function weightsOf(
  layer: Layer,
  input: TensorType,
  tensors: ReadonlyMap<string, HostTensor>,
  path: string,
): StartValues {
  const types = evalShape(
    (key) => {
      const { params, state } = layer.init(key, input);
      return { params, state };
    },
    { shape: [2], dtype: "u32" } satisfies TensorType,
  );
  const groups = [types.params, types.state].map((group) => flattenTree<TensorType>(group, isTensorType));
  const wanted = groups.flatMap(({ leaves, paths }) =>
    leaves.map((variable, index) => ({ name: paths[index] as string, inFile: paths[index] as string, variable })),
  );
  checkFits(path, mismatches(tensors, wanted));
  const [params, state] = groups.map(({ paths, shape }) =>
    unflattenTree(
      shape,
      paths.map((name) => toTensor(tensors.get(name) as HostTensor)),
    ),
  ) as [Tensors, Tensors];
  return { params, state };
}
