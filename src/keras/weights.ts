/** @module The weights in a file as values of a model. */

import { evalShape, isTensor, type Tensor, type Tensors } from "../functions/index.ts";
import { checkFits } from "../io/fitting.ts";
import { toTensor } from "../io/host-tensors.ts";
import type { HostTensor } from "../ir/node.ts";
import { formatType, isTensorType, sameType, type TensorType } from "../ir/shape.ts";
import { type FloatDType, withFloats } from "../nn/float-dtype.ts";
import type { Layer } from "../nn/index.ts";
import type { StartValues } from "../train/start-values.ts";
import { HeddleError } from "../util/errors.ts";
import { type FlatTree, flattenTree, unflattenTree } from "../util/tree.ts";

/** The types of a model's parameters and state for an input. */
function typesFor(layer: Layer, input: TensorType, dtype: FloatDType): readonly FlatTree<TensorType>[] {
  const types = evalShape(
    (key) => {
      const { params, state } = withFloats(dtype, () => layer.init(key, input));
      return { params, state };
    },
    { shape: [2], dtype: "u32" } satisfies TensorType,
  );
  return [types.params, types.state].map((group) => flattenTree<TensorType>(group, isTensorType));
}

/** @throws HeddleError `shape` where values of a model do not go with an input of another type than before. */
export function checkInput(
  layer: Layer,
  { params }: StartValues,
  before: TensorType,
  input: TensorType,
  dtype: FloatDType = "f32",
): void {
  const { leaves, paths } = flattenTree<Tensor>(params, isTensor);
  const [wanted] = typesFor(layer, input, dtype) as [FlatTree<TensorType>];
  const rows = ({ shape, dtype }: TensorType): string => formatType({ dtype, shape: shape.slice(1) });
  for (const [index, path] of wanted.paths.entries()) {
    const own = leaves[paths.indexOf(path)];
    const type = wanted.leaves[index] as TensorType;
    if (own === undefined || sameType(own, type)) continue;
    const told = `the model has learnt from rows of ${rows(before)}, got rows of ${rows(input)}`;
    throw new HeddleError(
      "shape",
      `${told}: its '${path}' is ${formatType(own)}, these would need ${formatType(type)}`,
      {
        hint: "give it rows like those before, or make a new model",
      },
    );
  }
}

/**
 * Values of a model for an input of this type, by their names in a file.
 *
 * @throws HeddleError `model` naming all that are missing, too many, or of another type
 */
export function weightsOf(
  layer: Layer,
  input: TensorType,
  { tensors, path }: { readonly tensors: ReadonlyMap<string, HostTensor>; readonly path: string },
  dtype: FloatDType = "f32",
): StartValues {
  const groups = typesFor(layer, input, dtype);
  const wanted = groups.flatMap(({ leaves, paths }) =>
    leaves.map((variable, index) => ({ name: paths[index] as string, inFile: paths[index] as string, variable })),
  );
  checkFits(path, tensors, wanted);
  const [params, state] = groups.map(({ paths, shape }) =>
    unflattenTree(
      shape,
      paths.map((name) => toTensor(tensors.get(name) as HostTensor)),
    ),
  ) as [Tensors, Tensors];
  return { params, state };
}
