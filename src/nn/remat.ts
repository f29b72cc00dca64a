/** @module A layer whose values are computed again in the backward pass instead of being kept. */
import { type RematOptions, remat as rematFunction, type Tensor, type Tensors } from "../functions/index.ts";
import { HeddleError } from "../util/errors.ts";
import { checkOptions } from "../util/options.ts";
import { shown } from "../util/show.ts";
import { standingFor } from "./composite.ts";
import {
  type Applied,
  applyLayer,
  asLayer,
  isLayerLike,
  type Layer,
  type LayerLike,
  madeBy,
  type ParamsOf,
} from "./layer.ts";

/**
 * The same layer with the same variables, whose inner values are computed again for its gradient (gradient checkpointing): a
 * chain of such layers keeps only the layers' inputs, at the price of one more forward pass. Dropout drops the same elements
 * both times.
 *
 * @param options.policy which inner values are kept anyway; see `remat`
 * @example nn.sequential(...blocks.map((block) => nn.remat(block)), nn.linear(10))
 */
export function remat<L extends LayerLike>(layer: L, options: RematOptions = {}): Layer<ParamsOf<L>> {
  checkOptions("remat", options, ["policy"]);
  if (!isLayerLike(layer)) throw new HeddleError("model", `remat: takes a layer, got ${shown(layer)}`);
  const inner = asLayer(layer);
  const checked: Layer = {
    kind: inner.kind,
    passesPrecision: true,
    wraps: inner,
    init: (key, input) => inner.init(key, input),
    apply({ params, state }, x, { train, key, precision } = {}) {
      const recomputed = rematFunction(
        (variables: { params: Tensors; state: Tensors }, input: Tensor, innerKey: Tensor | undefined): Applied =>
          applyLayer(inner, variables, input, { train, key: innerKey, precision }),
        options,
      );
      return recomputed({ params, state }, x, key);
    },
  };
  return madeBy(standingFor(checked, (other) => remat(other, options)) as Layer<ParamsOf<L>>, "remat", layer, options);
}
