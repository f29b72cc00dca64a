/** @module Optimizers that leave rows without a gradient as they are. */

import { any, isTensor, select, type Tensor, type Tensors } from "../functions/index.ts";
import { choice, type Selection } from "../functions/parts.ts";
import { range, sameShape, type TensorType } from "../ir/shape.ts";
import { HeddleError } from "../util/errors.ts";
import { shown } from "../util/show.ts";
import { listed } from "../util/text.ts";
import { flattenTree, unflattenTree } from "../util/tree.ts";
import { byPath, type DecayMask, type Optimizer } from "./optimizer.ts";

/**
 * The optimizer, made lazy on some parameters: rows (along dim 0) whose gradient is all zero keep their values, and the
 * state that has the parameter's shape keeps its rows, so that neither momentum nor weight decay moves what a step has not
 * looked up. PyTorch's `SparseAdam` is `lazy(adam(...), ...)` in this sense. State of another shape, as Adafactor's, is
 * updated as always.
 *
 * Under `jit`, a step on a large table of an embedding then costs what the rows do that it has looked up. For `sgd` without
 * momentum or weight decay, and for `adagrad`, that is so anyway: they do nothing where the gradient is zero.
 *
 * @param parameters which parameters, by a pattern of names or a function: of at least one dim
 * @throws HeddleError `option` for `lbfgs`, whose steps are of all parameters together, and from `init` when no parameter is lazy.
 * @example optim.lazy(optim.adam({ learningRate: 1e-3 }), "embedding")
 */
export function lazy(optimizer: Optimizer, parameters: Selection): Optimizer {
  const { name, learningRate, parts } = checkOptimizer(optimizer);
  const wanted = choice("lazy: parameters", parameters);
  if (parts !== undefined)
    throw new HeddleError("option", "lazy: takes the optimizer of a group, not groups", {
      hint: 'optim.groups({ embedding: optim.lazy(optim.adam(…), "**"), … })',
    });
  if (name === "lbfgs") throw new HeddleError("option", "lazy: lbfgs steps along all parameters together");
  return {
    name: `lazy ${name}`,
    learningRate,
    init(params) {
      checkNamed(params, wanted);
      return optimizer.init(params);
    },
    update(grads, state, params, options) {
      const updated = optimizer.update(grads, state, params, options);
      const touched = touchedRows(name, grads, params, wanted);
      const before = state as { readonly [slot: string]: Tensors };
      const slots = Object.entries(updated.state).map(([slot, after]) => [slot, kept(touched, before[slot], after)]);
      return { params: kept(touched, params, updated.params), state: Object.fromEntries(slots) };
    },
  };
}

function checkOptimizer(optimizer: Optimizer): Optimizer {
  if (typeof optimizer?.update === "function" && typeof optimizer.init === "function") return optimizer;
  throw new HeddleError("option", `lazy: takes an optimizer, such as optim.adam(…), got ${shown(optimizer)}`);
}

const isLazy = (name: string, { shape, dtype }: TensorType, wanted: DecayMask): boolean =>
  shape.length > 0 && wanted({ name, shape, dtype });

function checkNamed(params: Tensors, wanted: DecayMask): void {
  const { leaves, paths } = flattenTree(params, isTensor);
  if (leaves.length === 0 || leaves.some((leaf, index) => isLazy(paths[index] as string, leaf, wanted))) return;
  throw new HeddleError("option", `lazy: none of the parameters is one: ${listed(paths)}`, {
    hint: 'say which by a pattern of names, such as "embedding" or "**.weight"',
  });
}

/** The parameters that are lazy, by name: their shape, and which of their elements are in rows that have a gradient. */
type Touched = ReadonlyMap<string, { readonly rows: Tensor; readonly parameter: Tensor }>;

function touchedRows(name: string, grads: Tensors, params: Tensors, wanted: DecayMask): Touched {
  const { leaves, paths } = flattenTree(params, isTensor);
  const gradients = byPath(name, "the tree of gradients", grads);
  return new Map(
    leaves.flatMap((parameter, index) => {
      const path = paths[index] as string;
      const { shape } = parameter;
      if (!isLazy(path, parameter, wanted)) return [];
      const moves = gradients(path).ne(0);
      const rows = any(moves, range(shape.length).slice(1), { keepDims: true });
      return [[path, { rows, parameter }]];
    }),
  );
}

/** The new values where rows were touched, the old ones elsewhere. */
function kept<Tree extends Tensors | Tensor>(touched: Touched, before: unknown, after: Tree): Tree {
  const { leaves, paths, shape } = flattenTree(after, isTensor);
  const old = flattenTree(before, isTensor).leaves;
  const values = leaves.map((leaf, index) => {
    const found = touched.get(paths[index] as string);
    if (found === undefined || !sameShape(leaf.shape, found.parameter.shape)) return leaf;
    return select(found.rows, leaf, old[index] as Tensor);
  });
  return unflattenTree(shape, values) as Tree;
}
