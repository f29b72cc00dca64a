/** @module An optimizer's update as a program of its arguments alone: what a server runs. */
import { evalShape, isTensor, planFunction, type Tensor, type Tensors } from "../functions/index.ts";
import { isTensorType, type TensorType } from "../ir/shape.ts";
import type { Optimizer } from "../optim/index.ts";
import { learningRatesAt } from "../optim/optimizer.ts";
import { mesh, shardedOn, trafficOf } from "../plan/index.ts";
import { printProgram } from "../program/index.ts";
import { HeddleError } from "../util/errors.ts";
import { flattenTree, unflattenTree } from "../util/tree.ts";

/** Types of the parameters that an optimizer updates, and of its state. */
export interface UpdatedTypes {
  readonly params: Tensors;
  readonly slots: Tensors;
  readonly dtype: "f32" | "f64";
}

/** Types of an optimizer's state for parameters of these types. */
export function slotTypesOf(optimizer: Optimizer, params: Tensors): Tensors {
  const flat = flattenTree<TensorType>(params, isTensorType);
  const init = (...leaves: Tensor[]): Tensors => optimizer.init(unflattenTree(flat.shape, leaves) as Tensors);
  return evalShape(init, ...flat.leaves) as unknown as Tensors;
}

const stepType: TensorType = { shape: [], dtype: "i32" };

/** The update as a function that is traced. */
function updateBy(optimizer: Optimizer) {
  return (params: Tensors, slots: Tensors, grads: Tensors, step: Tensor, learningRate: Tensor) => {
    const updated = optimizer.update(grads, slots, params, { step, learningRate });
    // An optimizer orders states by its parameters, of which a server has some.
    const state = tensorsOf(updated.state);
    const { paths, shape } = flattenTree(slots, isTensor);
    return {
      params: updated.params,
      slots: unflattenTree(
        shape,
        paths.map((path) => state.get(path) as Tensor),
      ) as Tensors,
    };
  };
}

const argumentNames = ["params", "slots", "grads", "step", "rates"];

/** The update, planned for one device, or for rows on several servers. */
export function planned(
  optimizer: Optimizer,
  dtype: "f32" | "f64",
  { params, slots }: Omit<UpdatedTypes, "dtype">,
  servers?: number,
) {
  const rates: TensorType = { shape: learningRatesAt(optimizer, 0).shape, dtype };
  const devices = servers === undefined ? { axes: [] } : mesh({ servers });
  const leaves = flattenTree<TensorType>({ params, slots, grads: params }, isTensorType);
  const shapes = new Map(leaves.paths.map((path, index) => [path, leaves.leaves[index] as TensorType]));
  const cut = (path: string) =>
    servers === undefined || (shapes.get(path)?.shape[0] ?? 0) < servers
      ? undefined
      : shardedOn(devices, { servers: 0 });
  return planFunction(updateBy(optimizer), [params, slots, params, stepType, rates], devices, {
    name: "update",
    argumentNames,
    donate: ["params", "slots"],
    layouts: cut,
    outputLayouts: cut,
  });
}

/** Whether the rule, on rows of every tensor, needs nothing of other rows. */
export function isByRows(optimizer: Optimizer, types: UpdatedTypes, servers: number): boolean {
  if (servers === 1) return true;
  return trafficOf(planned(optimizer, types.dtype, types, servers).plan).every(({ sent }) => sent === 0);
}

/** The program of the update on these parameters, as text. @throws HeddleError `option` for a rule that uses tensors besides its arguments */
export function programOf(optimizer: Optimizer, dtype: "f32" | "f64", params: Tensors, slots: Tensors): string {
  if (flattenTree(params, isTensorType).leaves.length === 0) return "";
  const { program } = planned(optimizer, dtype, { params, slots });
  const [p, s] = [params, slots].map((tree) => flattenTree(tree, isTensorType).leaves.length) as [number, number];
  if (program.inputs.length !== 2 * p + s + 2)
    throw new HeddleError("option", `${optimizer.name}: an update rule on servers uses its arguments alone`, {
      hint: "make tensors inside of update, from numbers",
    });
  return printProgram(program);
}

/** The tensors of a tree by path. */
export function tensorsOf(tree: Tensors): Map<string, Tensor> {
  const { leaves, paths } = flattenTree(tree, isTensor);
  return new Map(paths.map((path, index) => [path, leaves[index] as Tensor]));
}
