/** @module Optimizers that do not change rows without a gradient. */

import { any, isTensor, select, type Tensor, type Tensors } from "../functions/index.ts";
import { choice, type Selection } from "../functions/parts.ts";
import { range, sameShape, type TensorType } from "../ir/shape.ts";
import { HeddleError } from "../util/errors.ts";
import { shown } from "../util/show.ts";
import { listed } from "../util/text.ts";
import { flattenTree, unflattenTree } from "../util/tree.ts";
import { byPath, type DecayMask, type Optimizer } from "./optimizer.ts";

/**
 * Makes an optimizer lazy on some parameters: rows (along dim 0) whose gradient is all zero keep their values, and so do the same rows
 * of state in the parameter's shape. So neither momentum nor weight decay changes rows that a step has not looked up. PyTorch's
 * `SparseAdam` is `lazy(adam(...), ...)` in this sense. State of another shape, such as Adafactor's, is updated as always.
 *
 * Under `jit`, a step on a large embedding table then costs only as much as the rows that it has looked up. `sgd` without momentum and
 * weight decay, and `adagrad`, do so anyway: they change nothing where the gradient is zero.
 *
 * @param parameters which parameters, by a pattern of names or a function; each must have at least one dim
 * @throws HeddleError `option` for `lbfgs`, whose steps depend on all parameters together, and from `init` when no parameter is lazy.
 * @example optim.lazy(optim.adam({ learningRate: 1e-3 }), "embedding")
 */
export function lazy(optimizer: Optimizer, parameters: Selection): Optimizer {
  const { name, learningRate, parts } = checkOptimizer(optimizer);
  const isChosen = choice("lazy: parameters", parameters);
  if (parts !== undefined)
    throw new HeddleError("option", "lazy: takes the optimizer of a group, not groups", {
      hint: 'optim.groups({ embedding: optim.lazy(optim.adam(…), "**"), … })',
    });
  if (name === "lbfgs") throw new HeddleError("option", "lazy: lbfgs steps along all parameters together");
  return {
    name: `lazy ${name}`,
    learningRate,
    init(params) {
      checkNamed(params, isChosen);
      return optimizer.init(params);
    },
    update(grads, state, params, options) {
      const updated = optimizer.update(grads, state, params, options);
      const touched = touchedRows(name, grads, params, isChosen);
      const oldState = state as { readonly [slot: string]: Tensors };
      const slots = Object.entries(updated.state).map(([slot, newTree]) => [
        slot,
        untouchedRestored(touched, oldState[slot], newTree),
      ]);
      return { params: untouchedRestored(touched, params, updated.params), state: Object.fromEntries(slots) };
    },
  };
}

function checkOptimizer(optimizer: Optimizer): Optimizer {
  if (typeof optimizer?.update === "function" && typeof optimizer.init === "function") return optimizer;
  throw new HeddleError("option", `lazy: takes an optimizer, such as optim.adam(…), got ${shown(optimizer)}`);
}

const isLazy = (name: string, { shape, dtype }: TensorType, isChosen: DecayMask): boolean =>
  shape.length > 0 && isChosen({ name, shape, dtype });

function checkNamed(params: Tensors, isChosen: DecayMask): void {
  const { leaves, paths } = flattenTree(params, isTensor);
  if (leaves.length === 0 || leaves.some((leaf, index) => isLazy(paths[index] as string, leaf, isChosen))) return;
  throw new HeddleError("option", `lazy: no parameter is lazy: ${listed(paths)}`, {
    hint: 'say which by a pattern of names, such as "embedding" or "**.weight"',
  });
}

/** The lazy parameters by name, and which of their elements are in rows that have a gradient. */
type Touched = ReadonlyMap<string, { readonly rows: Tensor; readonly parameter: Tensor }>;

function touchedRows(name: string, grads: Tensors, params: Tensors, isChosen: DecayMask): Touched {
  const { leaves, paths } = flattenTree(params, isTensor);
  const gradients = byPath(name, "the tree of gradients", grads);
  return new Map(
    leaves.flatMap((parameter, index) => {
      const path = paths[index] as string;
      const { shape } = parameter;
      if (!isLazy(path, parameter, isChosen)) return [];
      const isTouched = gradients(path).ne(0);
      const rows = any(isTouched, range(shape.length).slice(1), { keepDims: true });
      return [[path, { rows, parameter }]];
    }),
  );
}

/** The new values of rows that were touched, and the old values of the others. */
function untouchedRestored<Tree extends Tensors | Tensor>(touched: Touched, oldTree: unknown, newTree: Tree): Tree {
  const { leaves, paths, shape } = flattenTree(newTree, isTensor);
  const old = flattenTree(oldTree, isTensor).leaves;
  const values = leaves.map((leaf, index) => {
    const lazyParameter = touched.get(paths[index] as string);
    if (lazyParameter === undefined || !sameShape(leaf.shape, lazyParameter.parameter.shape)) return leaf;
    return select(lazyParameter.rows, leaf, old[index] as Tensor);
  });
  return unflattenTree(shape, values) as Tree;
}
