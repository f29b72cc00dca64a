/** @module Layers whose parameters are not trained. */
import { isTensor, stopGradient, type Tensor, type Tensors } from "../functions/index.ts";
import { HeddleError } from "../util/errors.ts";
import { shown } from "../util/show.ts";
import { flattenTree, unflattenTree } from "../util/tree.ts";
import { standingFor } from "./composite.ts";
import { applyLayer, asLayer, isLayerLike, type Layer, type LayerLike, madeBy, type ParamsOf } from "./layer.ts";

/** Parameters that are not trained: the tensors that `init` gave, wherever they are in a tree. */
const frozenTensors = new WeakSet<Tensor>();

/** Marks the tensors of a tree, as `init` made them. */
export function markFrozen<Tree extends Tensors>(tree: Tree): Tree {
  for (const leaf of flattenTree<Tensor>(tree, isTensor).leaves) frozenTensors.add(leaf);
  return tree;
}

/** The names of the frozen parameters of a tree that `init` gave. */
export function frozenNames(params: Tensors): ReadonlySet<string> {
  const { leaves, paths } = flattenTree<Tensor>(params, isTensor);
  return new Set(paths.filter((_path, index) => frozenTensors.has(leaves[index] as Tensor)));
}

/** The tree, as a constant for derivatives. */
export function constant<Tree extends Tensors>(tree: Tree): Tree {
  const { leaves, shape } = flattenTree<Tensor>(tree, isTensor);
  return unflattenTree(shape, leaves.map(stopGradient)) as Tree;
}

/**
 * The same layer with the same variables, which training does not change: `train` computes no gradients of its parameters and keeps
 * no optimizer state for them. The layer is applied as in evaluation, while training, too: dropout drops nothing, and batch norms use
 * their running statistics and do not update them (as Keras' `trainable = False`; in PyTorch `requires_grad_(False)` and `eval()`).
 * Gradients pass through it to earlier layers. The option `trainable` of `train` chooses parameters by name instead.
 *
 * @throws HeddleError `model` for a value that is not a layer
 * @example nn.sequential(nn.frozen(body), nn.linear(10))
 */
export function frozen<const L extends LayerLike>(layer: L): Layer<ParamsOf<L>> {
  if (!isLayerLike(layer)) throw new HeddleError("model", `frozen: takes a layer, got ${shown(layer)}`);
  const inner = asLayer(layer);
  const frozenLayer: Layer = {
    kind: inner.kind,
    passesPrecision: true,
    wraps: inner,
    init(key, input) {
      const { params, ...rest } = inner.init(key, input);
      return { ...rest, params: markFrozen(params) };
    },
    apply({ params, state }, x, options) {
      const { y } = applyLayer(inner, { params: constant(params), state }, x, { ...options, train: false });
      return { y, state };
    },
  };
  return madeBy(standingFor(frozenLayer, frozen) as Layer<ParamsOf<L>>, "frozen", layer);
}
