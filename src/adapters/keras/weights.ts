/** @module Checks that a model's weights fit its input. */
import { flattenTree, HeddleError } from "../../extend/index.ts";
import { evalShape, isTensor, type Tensor, type Tensors } from "../../functions/index.ts";
import { formatType, isTensorType, sameShape, type TensorType } from "../../ir/index.ts";
import type { Layer } from "../../nn/index.ts";

/** @throws HeddleError `shape` where the parameters of a model do not fit the type of a new input. */
export function checkInput(layer: Layer, params: Tensors, before: TensorType, input: TensorType): void {
  const { leaves, paths } = flattenTree<Tensor>(params, isTensor);
  const types = evalShape((key) => layer.init(key, input).params, { shape: [2], dtype: "u32" });
  const wanted = flattenTree<TensorType>(types, isTensorType);
  const rows = ({ shape, dtype }: TensorType): string => formatType({ dtype, shape: shape.slice(1) });
  for (const [index, path] of wanted.paths.entries()) {
    const parameter = leaves[paths.indexOf(path)];
    const type = wanted.leaves[index] as TensorType;
    if (parameter === undefined || sameShape(parameter.shape, type.shape)) continue;
    const told = `the model has learnt from rows of ${rows(before)}, got rows of ${rows(input)}`;
    throw new HeddleError(
      "shape",
      `${told}: its '${path}' is ${formatType(parameter)}, these would need ${formatType(type)}`,
      {
        hint: "give it rows like those before, or make a new model",
      },
    );
  }
}
