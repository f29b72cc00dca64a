/** @module The weights in a file as values of a model. */
import type { HostTensor } from "../ir/node.ts";
import { formatType, isTensorType, sameType, type TensorType } from "../ir/shape.ts";
import type { Layer } from "../nn/index.ts";
import { evalShape, type Tensor, type Tensors, tensor } from "../tensor/index.ts";
import type { StartValues } from "../train/start.ts";
import { HeddleError } from "../util/errors.ts";
import { flattenTree, unflattenTree } from "../util/tree.ts";

/**
 * Values of a model for an input of this type, by their names in a file.
 *
 * @throws HeddleError `weights` naming the first that is missing, too many, or of another type
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
  const left = new Set(tensors.keys());
  const take = (name: string, type: TensorType): Tensor => {
    const found = tensors.get(name);
    left.delete(name);
    if (found === undefined) throw problem(path, `has no '${name}'`, tensors);
    if (!sameType(found, type))
      throw problem(path, `has '${name}' as ${formatType(found)}, the model as ${formatType(type)}`, tensors);
    return tensor(found.data, { shape: found.shape, dtype: found.dtype });
  };
  const tree = (group: unknown): Tensors => {
    const { leaves, paths, shape } = flattenTree(group, isTensorType);
    return unflattenTree(
      shape,
      leaves.map((type, index) => take(paths[index] as string, type)),
    ) as Tensors;
  };
  const values = { params: tree(types.params), state: tree(types.state) };
  const [extra] = left;
  if (extra !== undefined) throw problem(path, `has '${extra}', which the model has not`, tensors);
  return values;
}

const problem = (path: string, what: string, tensors: ReadonlyMap<string, HostTensor>): HeddleError =>
  new HeddleError("weights", `loadWeights: ${path} ${what}`, {
    hint: `the file has ${[...tensors.keys()].join(", ")}`,
  });
